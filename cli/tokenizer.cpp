#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
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
  text::TrainerConfig trainer;
  data::DataConfig reader;
};

int train(const TrainOptions& o) {
  auto begin = std::chrono::steady_clock::now();
  text::BpeTrainer trainer(o.trainer);
  int64_t documents = 0;
  int64_t bytes = 0;
  for (const std::string& file : data::expand_files(o.files, "FILES")) {
    data::DocumentReader reader(open_byte_source(file), o.reader);
    data::Document document;
    while (reader.next(document)) {
      trainer.feed(document.text);
      ++documents;
      bytes += static_cast<int64_t>(document.text.size());
    }
  }
  text::TrainedBpe bpe = trainer.finish();
  text::write_tokenizer(bpe, o.out);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}: {} entries from {} documents ({}) in {:.2f} s\n", o.out, bpe.size(),
             format_count(static_cast<uint64_t>(documents)),
             format_bytes(static_cast<uint64_t>(bytes)), seconds);
  if (!bpe.complete()) {
    fmt::print("the text has no more pairs to merge: {} entries instead of {}\n", bpe.size(),
               o.trainer.vocab_size);
  }
  return 0;
}

int encode(const std::string& tokenizer, const std::string& text) {
  text::Tokenizer t = text::Tokenizer::load(tokenizer);
  for (int32_t id : t.encode(text)) fmt::print("{}\t{}\n", id, t.token(id));
  return 0;
}

}  // namespace

void add_tokenizer(CLI::App& app, Action& action) {
  CLI::App* c = app.add_subcommand("tokenizer", "Train a tokenizer, or look at what one does");
  c->require_subcommand(1);

  auto o = std::make_shared<TrainOptions>();
  CLI::App* t = c->add_subcommand("train", "Learn a byte-level BPE vocabulary from text");
  t->add_option("files", o->files, "Text or JSONL files, plain, gzip or zstd")->required();
  t->add_option("--out,-o", o->out, "Folder for tokenizer.json and tokenizer_config.json")
      ->required();
  t->add_option("--vocab-size", o->trainer.vocab_size, "Entries, special tokens included")
      ->capture_default_str();
  t->add_option("--min-frequency", o->trainer.min_frequency, "Pairs seen less often are not merged")
      ->capture_default_str();
  t->add_option("--special", o->trainer.special_tokens, "Special tokens; they get the first ids");
  t->add_option("--text-field", o->reader.text_field, "JSONL member that holds the text")
      ->capture_default_str();
  t->footer(
      "Example:\n"
      "  plimsoll tokenizer train corpus.jsonl --vocab-size 2048 --out tokenizer\n"
      "Hugging Face's tokenizers loads the result and gives the same ids.");
  t->callback([o, &action] { action = [o] { return train(*o); }; });

  struct EncodeOptions {
    std::string tokenizer, text;
  };
  auto e = std::make_shared<EncodeOptions>();
  CLI::App* n = c->add_subcommand("encode", "Print the ids of a text, one a line");
  n->add_option("tokenizer", e->tokenizer, "tokenizer.json or its folder")->required();
  n->add_option("text", e->text, "Text")->required();
  n->footer("Example:\n  plimsoll tokenizer encode tokenizer \"In the beginning\"");
  n->callback([e, &action] { action = [e] { return encode(e->tokenizer, e->text); }; });
}

}  // namespace plimsoll::cli
