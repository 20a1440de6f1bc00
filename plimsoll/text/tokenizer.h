#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// What encode() does with special tokens ("<|end_of_text|>") that stand in the text itself.
enum class SpecialTokens {
  kRecognise,  ///< they become their id, as Hugging Face does: for prompts and chat
  kAsText,     ///< they are split like any text: for training data, which must not forge them
};

/// Byte-level BPE read from a Hugging Face tokenizer.json: ids equal Hugging Face's on every valid
/// UTF-8 string. What a file asks for and this class does not know is refused by name.
///
/// Immutable and cheap to copy (copies share the tables); every const call may be made from many
/// threads at once.
class Tokenizer {
 public:
  /// Reads tokenizer.json (or the folder that holds it) and, where it exists, the
  /// tokenizer_config.json beside it. Throws Error naming the file and the field.
  static Tokenizer load(const std::filesystem::path& file_or_folder);

  /// The same from memory; `origin` stands for the file's name in errors. `config_json` is the text
  /// of tokenizer_config.json, or empty.
  static Tokenizer parse(std::string_view json, const std::string& origin,
                         std::string_view config_json = {});

  /// Appends the ids of `text` to `out`. Adds no BOS or EOS. Bytes that are no valid UTF-8 are read
  /// as U+FFFD, one for each maximal subpart.
  void encode(std::string_view text, std::vector<int32_t>& out,
              SpecialTokens specials = SpecialTokens::kRecognise) const;
  std::vector<int32_t> encode(std::string_view text,
                              SpecialTokens specials = SpecialTokens::kRecognise) const;

  /// The text of `ids`, always valid UTF-8 (a broken sequence becomes U+FFFD). Ids that name no
  /// token give no text: a model may have more rows than the vocabulary.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// Largest id + 1: the least vocabulary a model needs.
  int32_t size() const;
  /// Id of a token by its text as tokenizer.json spells it ("<|pad|>", "\u0120the").
  std::optional<int32_t> id_of(std::string_view token) const;
  /// Text of a token as tokenizer.json spells it; empty where no token has the id.
  std::string token(int32_t id) const;
  /// Bytes that the token stands for (need not be whole UTF-8); empty where no token has the id.
  std::string_view bytes(int32_t id) const;
  bool is_special(int32_t id) const;

  /// From tokenizer_config.json; absent where that file or its key is.
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> pad() const;

  /// Ids that the file's post-processor puts around one text (Llama 3.1: {BOS} and {}). encode()
  /// never adds them.
  const std::vector<int32_t>& template_prefix() const;
  const std::vector<int32_t>& template_suffix() const;

  /// Hash of all that changes encodings, BOS, EOS and PAD included: the key of token caches.
  std::string fingerprint() const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace plimsoll::text
