#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/inspect.h"
#include "plimsoll/data/documents.h"
#include "plimsoll/data/token_store.h"
#include "plimsoll/text/tokenizer.h"

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

int inspect_text(const fs::path& path) {
  data::DataConfig config;
  data::DocumentReader reader(open_byte_source(path), config);
  data::Document document;
  while (reader.next(document)) {
  }
  const data::DocumentCounts& c = reader.counts();
  fmt::print("{}: a {} file\ndocuments: {}\ntext bytes: {}\nwhole: yes\n", path.string(),
             data::resolve_format("auto", path.string()), c.documents, c.bytes);
  return 0;
}

// A folder of checkpoints: each of them, data and all.
int inspect_root(const checkpoint::Inspection& root) {
  fmt::print("{}: folder of checkpoints\n", root.path.string());
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(root.path)) {
    const std::string name = entry.path().filename().string();
    // Those with a dot in the name are being written, or were when their process was killed.
    if (name.starts_with("step-") && name.find('.') == std::string::npos)
      folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.string(), y = b.string();
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  std::string problem = folders.empty() ? "no complete checkpoint" : "";
  for (const fs::path& folder : folders) {
    const checkpoint::Inspection found = checkpoint::inspect(folder);
    fmt::print("{}: {}\n", folder.filename().string(), found.whole ? "whole" : found.problem);
    if (!found.whole && problem.empty()) problem = folder.filename().string() + " is damaged";
  }
  fmt::print("whole: {}\n", problem.empty() ? "yes" : "no, " + problem);
  return problem.empty() ? 0 : 1;
}

int inspect(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UsageError(fmt::format("{}: no such file or folder", path.string()));
  }
  const std::string name = path.filename().string();
  if (fs::is_directory(path)) {
    if (fs::exists(path / "checkpoints")) return inspect(path / "checkpoints");
    checkpoint::Inspection found = checkpoint::inspect(path);
    if (found.kind == checkpoint::Inspection::Kind::kNothing &&
        fs::exists(path / "tokenizer.json")) {
      return inspect_tokenizer(path);
    }
    if (found.kind == checkpoint::Inspection::Kind::kNothing) throw Error(found.problem);
    if (found.kind == checkpoint::Inspection::Kind::kRoot) return inspect_root(found);
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
  return inspect_text(path);
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto path = std::make_shared<std::string>();
  CLI::App* c =
      app.add_subcommand("inspect", "Say what a file or folder is and whether it is whole");
  c->add_option("path", *path, "Run, checkpoint, safetensors file, tokenizer or data file")
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
