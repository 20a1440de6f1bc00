#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "plimsoll/trainer/trainer.h"

namespace plimsoll::cli {
namespace {

// As one word of a shell.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The run folder's own recipe holds every --set, so that the line works as it is.
std::string interrupted_line(const trainer::TrainResult& result) {
  const std::string recipe =
      shell_word(std::filesystem::absolute(result.folder / "config.toml").string());
  if (!result.resumable) {
    return fmt::format(
        "interrupted after step {}; nothing is saved; start over with: "
        "plimsoll train {} --resume auto",
        result.step, recipe);
  }
  const std::string from = *result.resumable == result.step
                               ? std::string()
                               : fmt::format(" after step {}", *result.resumable);
  return fmt::format("interrupted after step {}; continue{} with: plimsoll train {} --resume auto",
                     result.step, from, recipe);
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  struct Options {
    std::string recipe, device, resume = "none";
    std::vector<std::string> sets;
    bool deterministic = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("train", "Train as a recipe says");
  c->add_option("recipe", o->recipe, "Recipe (TOML)")->required();
  c->add_option("--set", o->sets, "Override a key of the recipe: section.key=value; repeatable")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  CLI::Option* device =
      c->add_option("--device", o->device, "auto, cpu, or NAME[:INDEX][,option=value...]");
  c->add_option("--resume", o->resume, "auto (the newest checkpoint), a step, or none")
      ->capture_default_str();
  c->add_flag("--deterministic", o->deterministic,
              "Bit-equal runs on one machine and thread count");
  c->footer(
      "Examples:\n"
      "  plimsoll train recipes/llama3_debug.toml\n"
      "  plimsoll train recipes/llama3_debug.toml --set train.steps=20 --set optim.lr=3e-4\n"
      "  plimsoll train recipes/llama3_debug.toml --set run.dir=runs/a --resume auto\n"
      "Exit codes: 0 done, 1 failed, 2 usage or bad recipe, 130 interrupted.");
  c->callback([o, device, &action] {
    action = [o, device] {
      std::vector<std::string> sets = o->sets;
      if (device->count() > 0) sets.push_back("device.name=\"" + o->device + "\"");
      if (o->deterministic) sets.push_back("train.deterministic=true");
      std::signal(SIGPIPE, SIG_IGN);  // a reader of the output that left does not end a run
      trainer::Resume resume = trainer::parse_resume(o->resume);
      trainer::RunConfig config = trainer::read_recipe(o->recipe, sets);
      // A run's own recipe goes on with that run, wherever its folder is now.
      const std::filesystem::path recipe(o->recipe);
      const bool chosen = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
        return set.starts_with("run.dir=");
      });
      if (!chosen && resume.kind != trainer::Resume::Kind::kNone &&
          recipe.filename() == "config.toml" && trainer::holds_run(recipe.parent_path())) {
        config.run.dir = recipe.parent_path().string();
      }
      report::Console console;
      trainer::TrainResult result = trainer::train(config, resume, console);
      if (!result.interrupted) return 0;
      console.line(interrupted_line(result));
      return 130;
    };
  });
}

}  // namespace plimsoll::cli
