#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/stdin.h"
#include "cli/whole_number.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "plimsoll/data/config.h"
#include "plimsoll/data/documents.h"
#include "plimsoll/text/bpe_trainer.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/text/tokenizer_writer.h"

namespace plimsoll::cli {
namespace {

struct TrainOptions {
  std::vector<std::string> files;
  std::string out;
  bool force = false;
  std::string pad = "<|pad|>", bos = "<|begin_of_text|>", eos = "<|end_of_text|>";
  std::vector<std::string> more_special;
  text::TrainerConfig trainer;
  data::DataConfig reader;
};

// PAD, BOS and EOS, then the others, each once: two of them may be one token.
text::TrainerConfig trainer_config(const TrainOptions& o) {
  text::TrainerConfig config = o.trainer;
  config.special_tokens.clear();
  auto add = [&](const std::string& token) {
    auto& all = config.special_tokens;
    if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
  };
  auto named = [&](const std::string& token) -> std::optional<std::string> {
    if (token.empty()) return std::nullopt;
    add(token);
    return token;
  };
  config.pad_token = named(o.pad);
  config.bos_token = named(o.bos);
  config.eos_token = named(o.eos);
  for (const std::string& token : o.more_special) add(token);
  return config;
}

int train(const TrainOptions& o) {
  auto begin = std::chrono::steady_clock::now();
  text::BpeTrainer trainer(trainer_config(o));
  const std::vector<std::string> files = data::expand_files(o.files, "");
  if (!o.force && std::filesystem::exists(std::filesystem::path(o.out) / "tokenizer.json")) {
    throw UsageError(fmt::format("{} already holds a tokenizer", o.out),
                     "choose another --out, or give --force to replace it");
  }
  int64_t documents = 0;
  int64_t bytes = 0;
  int64_t skipped = 0;
  int64_t repaired = 0;
  for (const std::string& file : files) {
    data::DocumentReader reader(open_byte_source(file), o.reader, {.command_line = true});
    data::Document document;
    while (reader.next(document)) {
      trainer.feed(document.text);
      ++documents;
      bytes += static_cast<int64_t>(document.text.size());
    }
    skipped += reader.counts().skipped;
    repaired += reader.counts().bad_utf8;
  }
  text::TrainedBpe bpe = trainer.finish();
  text::write_tokenizer(bpe, o.out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}: {} entries from {} documents ({}) in {:.2f} s\n", o.out, bpe.size(),
             format_count(documents), format_bytes(bytes), seconds);
  if (skipped > 0) fmt::print("{} bad lines skipped\n", format_count(skipped));
  if (repaired > 0) fmt::print("{} documents repaired (invalid UTF-8)\n", format_count(repaired));
  if (!bpe.complete()) {
    fmt::print("the text has no more pairs to merge: {} entries instead of {}\n", bpe.size(),
               o.trainer.vocab_size);
  }
  return 0;
}

void add_train_options(CLI::App& t, TrainOptions& o) {
  t.add_option("files", o.files, "Text or JSONL files, plain, gzip or zstd; paths or globs")
      ->required();
  t.add_option("--out,-o", o.out, "Folder for tokenizer.json and tokenizer_config.json")
      ->required();
  t.add_flag("--force", o.force, "Replace a tokenizer that is in that folder already");
  t.add_option("--vocab-size", o.trainer.vocab_size, "Entries, special tokens included")
      ->check(whole_number(1, INT32_MAX))
      ->capture_default_str();
  t.add_option("--min-frequency", o.trainer.min_frequency, "Pairs seen less often are not merged")
      ->capture_default_str();
  t.add_option("--pad", o.pad, "Padding token; empty: none")->capture_default_str();
  t.add_option("--bos", o.bos, "Token before each document; empty: none")->capture_default_str();
  t.add_option("--eos", o.eos, "Token after each document; empty: none")->capture_default_str();
  t.add_option("--special", o.more_special,
               "Further special tokens, after PAD, BOS and EOS, which get the first ids; name the "
               "files before")
      ->type_name("TOKEN");
  // The reading options of a recipe's [data], under their own names.
  data::DataConfig& r = o.reader;
  t.add_option("--format", r.format, "What the files are; auto goes by the name")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  t.add_option("--text-field", r.text_field, "JSONL member that holds the text")
      ->capture_default_str();
  t.add_option("--text-documents", r.text_documents, "Plain text: what a document is")
      ->check(CLI::IsMember({"file", "blank_lines", "line"}))
      ->capture_default_str();
  t.add_option("--on-bad-line", r.on_bad_line, "A line that cannot be used")
      ->check(CLI::IsMember({"fail", "skip"}))
      ->capture_default_str();
  t.add_option("--invalid-utf8", r.invalid_utf8, "Bytes that are no UTF-8")
      ->check(CLI::IsMember({"fail", "replace"}))
      ->capture_default_str();
  t.add_option("--max-document-bytes", r.max_document_bytes, "A longer document is a bad line")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31, "1 to 2 GiB"))
      ->capture_default_str();
}

int encode(const std::string& tokenizer, const std::string& text) {
  text::Tokenizer t = text::Tokenizer::load(tokenizer);
  for (int32_t id : t.encode(text == "-" ? read_stdin() : text))
    fmt::print("{}\t{}\n", id, t.token(id));
  return 0;
}

}  // namespace

void add_tokenizer(CLI::App& app, Action& action) {
  CLI::App* c = app.add_subcommand("tokenizer", "Train a tokenizer, or look at what one does");
  c->require_subcommand(1);

  auto o = std::make_shared<TrainOptions>();
  CLI::App* t = c->add_subcommand("train", "Learn a byte-level BPE vocabulary from text");
  add_train_options(*t, *o);
  t->footer(
      "Examples:\n"
      "  plimsoll tokenizer train corpus.jsonl --vocab-size 2048 --out tokenizer\n"
      "  plimsoll tokenizer train corpus.jsonl --out chat --special \"<|user|>\" \"<|reply|>\"\n"
      "  plimsoll tokenizer train crawl.jsonl.zst --out crawl --on-bad-line skip\n"
      "Hugging Face's tokenizers loads the result and gives the same ids.");
  t->callback([o, &action] { action = [o] { return train(*o); }; });

  struct EncodeOptions {
    std::string tokenizer, text;
  };
  auto e = std::make_shared<EncodeOptions>();
  CLI::App* n = c->add_subcommand("encode", "Print the ids of a text, one a line");
  n->add_option("tokenizer", e->tokenizer, "tokenizer.json or its folder")->required();
  n->add_option("text", e->text, "Text; -: all of the standard input, as it is")->required();
  n->footer(
      "Examples:\n"
      "  plimsoll tokenizer encode tokenizer \"In the beginning\"\n"
      "  plimsoll tokenizer encode tokenizer -- \"-1 begins with a dash\"\n"
      "  plimsoll tokenizer encode tokenizer - < text.txt");
  n->callback([e, &action] { action = [e] { return encode(e->tokenizer, e->text); }; });
}

}  // namespace plimsoll::cli
