#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/text/unicode.h"

namespace plimsoll::text {

/// A token that is found in the text before it is cut into words.
struct AddedToken {
  std::string content;  // as the file spells it
  std::string
      found_as;  // as it is matched and printed: content, normalised where `normalized` says so
  int32_t id = 0;
  bool single_word = false;  // not beside a word character
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for after normalisation instead of before
  bool special = false;
};

/// Finds added tokens, the longest of those that begin leftmost. Immutable.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// Each `found_as` must be distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  /// Calls piece(std::string_view) for text between tokens (never empty) and token(id) for tokens,
  /// in order. With `skip_special` special tokens count as text. `text` must be valid UTF-8.
  template <class Piece, class Token>
  void split(std::string_view text, bool skip_special, Piece&& piece, Token&& token) const {
    size_t at = 0, done = 0;
    while (const Match m = tokens_.empty() ? Match{} : find(text, at)) {
      at = m.end;
      if (skip_special && m.token->special) continue;
      if (m.token->single_word && beside_word(text, m)) continue;
      const size_t begin = m.token->lstrip ? left_of_space(text, m.begin, done) : m.begin;
      const size_t end = m.token->rstrip ? right_of_space(text, m.end) : m.end;
      if (done < begin) piece(text.substr(done, begin - done));
      token(m.token->id);
      done = end;
    }
    if (done < text.size()) piece(text.substr(done));
  }

 private:
  struct Match {
    const AddedToken* token = nullptr;
    size_t begin = 0, end = 0;
    explicit operator bool() const { return token != nullptr; }
  };
  Match find(std::string_view text, size_t from) const;
  const AddedToken* longest_at(std::string_view text) const;
  static bool beside_word(std::string_view text, const Match& m);
  static size_t left_of_space(std::string_view text, size_t begin, size_t stop);
  static size_t right_of_space(std::string_view text, size_t end);

  std::vector<AddedToken> tokens_;  // sorted by found_as
  std::array<bool, 256> first_byte_{};
  std::array<std::pair<uint32_t, uint32_t>, 256> range_{};  // of tokens_, by first byte
  int only_first_ = -1;  // the first byte where all tokens share it
};

}  // namespace plimsoll::text
