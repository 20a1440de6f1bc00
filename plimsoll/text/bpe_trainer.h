#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/text/pre_tokenizer.h"

namespace plimsoll::text {

struct TrainerConfig {
  /// Entries wanted, special tokens and the 256 bytes included.
  int32_t vocab_size = 2048;
  /// Pairs seen less often are not merged.
  int64_t min_frequency = 0;
  /// They get the first ids, in this order.
  std::vector<std::string> special_tokens = {"<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"};
  /// Written to tokenizer_config.json; each must be one of special_tokens, or absent.
  std::optional<std::string> pad_token = "<|pad|>";
  std::optional<std::string> bos_token = "<|begin_of_text|>";
  std::optional<std::string> eos_token = "<|end_of_text|>";
  /// How text is cut into words: one of the patterns.
  Splitter pattern = Splitter::kGpt2;
};

/// A trained vocabulary. Tokens are spelled as in tokenizer.json (byte-level characters).
struct TrainedBpe {
  TrainerConfig config;
  std::vector<std::string> tokens;                          // by id
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  int64_t words = 0;                                        // words fed
  int64_t unique_words = 0;                                 // distinct ones among them

  /// Fewer entries than config.vocab_size where the text has no more pairs to merge.
  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  bool complete() const { return size() >= config.vocab_size; }
};

/// Learns byte-level BPE merges equal to those of Hugging Face's BpeTrainer (ByteLevel alphabet) on
/// the same texts. Memory grows with the distinct words, not with the text. Not thread-safe.
class BpeTrainer {
 public:
  /// Throws UsageError: vocab_size without room for the bytes and special tokens, duplicate or
  /// empty special tokens, a bos, eos or pad that is not among them.
  explicit BpeTrainer(TrainerConfig config = {});
  ~BpeTrainer();
  BpeTrainer(BpeTrainer&&) noexcept;
  BpeTrainer& operator=(BpeTrainer&&) noexcept;

  /// Counts the words of one text. No word crosses from one call to the next, so feed documents or
  /// lines with their newline (Hugging Face feeds files by line).
  void feed(std::string_view text);

  /// Merges until vocab_size is reached or no pair is left; the trainer is then empty.
  TrainedBpe finish();

 private:
  struct Words;
  TrainerConfig config_;
  std::unique_ptr<Words> words_;
};

}  // namespace plimsoll::text
