#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/inspect.h"
#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/inspect.h"
#include "plimsoll/data/token_store.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/trainer/run_folder.h"

namespace plimsoll::cli {
namespace {
namespace fs = std::filesystem;

int inspect_tokenizer(const fs::path& path) {
  text::Tokenizer t = text::Tokenizer::load(path);
  auto special = [&](const char* name, std::optional<int32_t> id) {
    fmt::print("{}: {}\n", name, id ? fmt::format("{} ({})", *id, t.token(*id)) : "none");
  };
  fmt::print("{}: a byte-level BPE tokenizer of {} ids\n", path.string(), t.size());
  special("bos", t.bos());
  special("eos", t.eos());
  special("pad", t.pad());
  fmt::print("fingerprint: {}\nwhole: yes\n", t.fingerprint());
  return 0;
}

int inspect_tokens(const fs::path& path) {
  data::TokenStore store(path);
  store.verify();
  const data::TokenStats& s = store.stats();
  fmt::print("{}: tokenised documents\ndocuments: {}\ntokens: {}\ntext bytes: {}\nvocabulary: {}\n",
             path.string(), s.documents, s.tokens, s.bytes, store.vocab_size());
  fmt::print("whole: yes\n");
  return 0;
}

int inspect(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UsageError(fmt::format("{}: no such file or folder", path.string()));
  }
  const std::string name = path.filename().string();
  if (fs::is_directory(path)) {
    if (trainer::holds_run(path)) return inspect_run(path);
    checkpoint::Inspection found = checkpoint::inspect(path);
    if (found.kind == checkpoint::Inspection::Kind::kNothing &&
        fs::exists(path / "tokenizer.json")) {
      return inspect_tokenizer(path);
    }
    if (found.kind == checkpoint::Inspection::Kind::kNothing) throw Error(found.problem);
    if (found.kind == checkpoint::Inspection::Kind::kRoot) return inspect_checkpoints(path);
    fmt::print("{}", checkpoint::describe(found));
    return found.whole ? 0 : 1;
  }
  if (name.ends_with(".safetensors")) {
    checkpoint::Inspection found = checkpoint::inspect(path);
    fmt::print("{}", checkpoint::describe(found));
    return found.whole ? 0 : 1;
  }
  if (name.ends_with("tokenizer.json")) return inspect_tokenizer(path);
  if (name.ends_with(".tokens")) return inspect_tokens(path);
  if (const std::optional<int> code = inspect_run_file(path)) return *code;
  return inspect_data(path);
}

}  // namespace

int say_whole(const std::string& problem) {
  fmt::print("whole: {}\n", problem.empty() ? "yes" : "no, " + problem);
  return problem.empty() ? 0 : 1;
}

void add_inspect(CLI::App& app, Action& action) {
  auto path = std::make_shared<std::string>();
  CLI::App* c =
      app.add_subcommand("inspect", "Say what a file or folder is and whether it is whole");
  c->add_option("path", *path,
                "Run or a file of it, checkpoint, safetensors file, tokenizer, recipe or data file")
      ->required();
  c->footer(
      "Examples:\n"
      "  plimsoll inspect runs/llama3_debug-1\n"
      "  plimsoll inspect runs/llama3_debug-1/checkpoints/step-100/model.safetensors\n"
      "  plimsoll inspect corpus.jsonl.zst\n"
      "Exit codes: 0 whole, 1 damaged.");
  c->callback([path, &action] { action = [path] { return inspect(*path); }; });
}

}  // namespace plimsoll::cli
