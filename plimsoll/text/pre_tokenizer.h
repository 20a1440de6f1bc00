#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/text/scanner.h"

namespace plimsoll::text {

/// One way of cutting text into pieces.
enum class Splitter : uint8_t {
  kGpt2,         ///< the pattern inside Hugging Face's ByteLevel (use_regex)
  kCl100k1,      ///< the cl100k kind with \p{N}: Qwen 2 and 3
  kCl100k3,      ///< the cl100k kind with \p{N}{1,3}: Llama 3
  kDigits,       ///< each numeric character alone
  kDigitRuns,    ///< each run of numeric characters alone
  kPrefixSpace,  ///< not a cut: puts a space before a piece that does not begin with one
};

/// The pattern of a Split pre-tokenizer as tokenizer.json spells it; empty for those that are none.
std::string_view pattern_of(Splitter splitter);
std::optional<Splitter> splitter_of_pattern(std::string_view pattern);

/// Cuts text into the words that BPE merges within: splitters in a row, each applied to the pieces
/// of the one before. A new kind of splitter is one more case below.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<Splitter> stages = {}) : stages_(std::move(stages)) {}

  const std::vector<Splitter>& stages() const { return stages_; }

  /// Calls word(std::string_view) for each word in order. `text` must be valid UTF-8; a word points
  /// into it, or into a buffer that lasts for the call.
  template <class Word>
  void for_each_word(std::string_view text, Word&& word) const {
    apply(stages_, text, word);
  }

 private:
  template <class Word>
  void apply(std::span<const Splitter> stages, std::string_view piece, Word& word) const {
    if (piece.empty()) return;
    if (stages.empty()) return word(piece);
    const auto rest = stages.subspan(1);
    const Scanner& s = scanner_;
    switch (stages[0]) {
      case Splitter::kGpt2:
        return cut(piece, rest, word, [&](auto b, auto e) { return s.gpt2(b, e); });
      case Splitter::kCl100k1:
        return cut(piece, rest, word, [&](auto b, auto e) { return s.cl100k<1>(b, e); });
      case Splitter::kCl100k3:
        return cut(piece, rest, word, [&](auto b, auto e) { return s.cl100k<3>(b, e); });
      case Splitter::kDigits:
        return cut(piece, rest, word, [&](auto b, auto e) { return digits(b, e, true); });
      case Splitter::kDigitRuns:
        return cut(piece, rest, word, [&](auto b, auto e) { return digits(b, e, false); });
      case Splitter::kPrefixSpace: {
        if (piece.front() == ' ') return apply(rest, piece, word);
        std::string spaced(1, ' ');
        spaced += piece;
        return apply(rest, spaced, word);
      }
    }
  }

  template <class Word, class Next>
  void cut(std::string_view piece, std::span<const Splitter> rest, Word& word, Next next) const {
    const char *p = piece.data(), *end = p + piece.size();
    while (p < end) {
      const char* q = next(p, end);
      const std::string_view part(p, static_cast<size_t>(q - p));
      if (rest.empty()) {
        word(part);
      } else {
        apply(rest, part, word);
      }
      p = q;
    }
  }

  const char* digits(const char* p, const char* end, bool single) const {
    const bool numeric = scanner_.is_numeric(p);
    p += decode_utf8(p).size;
    if (numeric && single) return p;
    while (p < end && scanner_.is_numeric(p) == numeric) p += decode_utf8(p).size;
    return p;
  }

  std::vector<Splitter> stages_;
  Scanner scanner_;
};

}  // namespace plimsoll::text
