#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"
#include "plimsoll/report/console.h"
#include "plimsoll/version.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int fail(int code, const std::string& what, const std::string& hint = {}) {
  plimsoll::report::restore_terminal();
  std::string text = "error: " + what + "\n";
  if (!hint.empty()) text += "hint: " + hint + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);  // where nobody listens the code must do
  return code;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Runs the action; without --debug every failure is one clear message and an exit code.
int run(const plimsoll::cli::Action& action) {
  try {
    return action();
  } catch (const plimsoll::UsageError& e) {
    return fail(kUsage, e.what(), e.hint());
  } catch (const plimsoll::Error& e) {
    return fail(kFailed, e.what(), e.hint());
  } catch (const c10::OutOfMemoryError& e) {
    return fail(kFailed, first_line(e.what_without_backtrace()),
                "make train.tokens_per_batch or the model smaller");
  } catch (const c10::Error& e) {
    return fail(kFailed, first_line(e.what_without_backtrace()),
                "run with --debug for the details");
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "out of host memory", "make train.tokens_per_batch or the model smaller");
  } catch (const std::exception& e) {
    return fail(kFailed, first_line(e.what()), "run with --debug for the details");
  }
}

struct WrongLine {
  std::string what, hint;
};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// What is wrong with a command line that CLI11 refused. Of an unknown command it says only that a
// command is missing.
WrongLine explain(CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  CLI::App* at = &app;
  std::string path = "plimsoll";
  for (int i = 1; i < argc; ++i) {
    const std::vector<CLI::App*> commands = at->get_subcommands([](CLI::App*) { return true; });
    const std::string word = argv[i];
    if (commands.empty()) break;
    if (word.starts_with('-')) continue;
    std::vector<std::string> names;
    CLI::App* next = nullptr;
    for (CLI::App* command : commands) {
      names.push_back(command->get_name());
      if (command->get_name() == word) next = command;
    }
    if (next != nullptr) {
      at = next;
      path += " " + word;
      continue;
    }
    const std::string near = plimsoll::config::nearest(word, names);
    return {fmt::format("unknown command \"{}\"", word),
            near.empty()
                ? fmt::format("{} knows: {}", path, joined(names))
                : fmt::format("did you mean `{} {}`? there are: {}", path, near, joined(names))};
  }
  std::string hint = fmt::format("see {} --help", path);
  const bool misread = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                       dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  for (int i = 1; misread && i < argc; ++i) {
    // A text such as "-1" in the place of an argument is taken for an option.
    if (argv[i][0] == '-' && at->get_option_no_throw(argv[i]) == nullptr && argv[i][1] != '-' &&
        argv[i][1] != '\0') {
      hint += "; a text that begins with a dash goes after `--`";
      break;
    }
  }
  return {first_line(error.what()), hint};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains language models: Llama 3 and Qwen 3 decoders, from a text to a checkpoint."};
  app.set_version_flag("--version", std::string("plimsoll ") + plimsoll::version());
  app.require_subcommand(1);
  app.fallthrough();
  bool debug = false;
  app.add_flag("--debug", debug, "Let failures end the program with all they carry");
  plimsoll::cli::Action action;
  plimsoll::cli::add_train(app, action);
  plimsoll::cli::add_generate(app, action);
  plimsoll::cli::add_inspect(app, action);
  plimsoll::cli::add_doctor(app, action);
  plimsoll::cli::add_tokenizer(app, action);
  plimsoll::cli::add_keys(app, action);
  app.footer(
      "Examples:\n"
      "  plimsoll train recipes/llama3_debug.toml\n"
      "  plimsoll generate runs/llama3_debug-1 --prompt \"In the beginning\"\n"
      "  plimsoll inspect runs/llama3_debug-1/checkpoints/step-100\n"
      "  plimsoll doctor");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const WrongLine wrong = explain(app, argc, argv, e);
    return fail(kUsage, wrong.what, wrong.hint);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
  const int code = debug ? action() : run(action);
  // `train` has its files and goes on without a reader; the other commands' output is their work.
  if (code == 0 && !app.got_subcommand("train") &&
      (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    return fail(kFailed, fmt::format("cannot write the output: {}", std::strerror(errno)));
  }
  return code;
}
