#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// One code point read from UTF-8 and how many bytes it took.
struct Decoded {
  uint32_t code_point;
  uint32_t size;
};

/// Reads one code point. The text from `p` on must be valid UTF-8 (see is_valid_utf8).
inline Decoded decode_utf8(const char* p) {
  auto byte = [p](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  const uint32_t c = byte(0);
  if (c < 0x80) return {c, 1};
  if (c < 0xE0) return {(c & 31) << 6 | (byte(1) & 63), 2};
  if (c < 0xF0) return {(c & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), 3};
  return {(c & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63), 4};
}

/// Start of the character that ends just before `p`; valid UTF-8, and not at its begin.
inline const char* previous_character(const char* p) {
  do --p;
  while ((static_cast<unsigned char>(*p) & 0xC0) == 0x80);
  return p;
}

void append_utf8(uint32_t code_point, std::string& out);

bool is_valid_utf8(std::string_view text);

/// Appends `bytes` to `out` with each maximal subpart of an invalid sequence replaced by U+FFFD.
/// With `more_follows` a sequence that may still become valid is left at the end. Returns the
/// number of bytes taken.
size_t repair_utf8(std::string_view bytes, bool more_follows, std::string& out);

/// What the patterns of tokenizers ask of a character. Exactly one of the four.
enum class CharClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

/// Character properties by a two-stage table (about 60 kB), filled once from the generated runs.
class UnicodeTable {
 public:
  static const UnicodeTable& instance();

  CharClass char_class(uint32_t c) const { return static_cast<CharClass>(properties(c) & 3); }
  /// What the Digits pre-tokenizer isolates; not the same as kNumber.
  bool is_numeric(uint32_t c) const { return properties(c) & 4; }
  /// \w of single_word tokens.
  bool is_word(uint32_t c) const { return properties(c) & 8; }
  /// May change, or be changed by its neighbours, under NFC.
  bool is_nfc_unsafe(uint32_t c) const { return properties(c) & 16; }

 private:
  UnicodeTable();
  uint8_t properties(uint32_t c) const { return cells_[block_[c >> 8] | (c & 255)]; }

  std::array<uint32_t, 0x1100> block_;  // start of the block in cells_
  std::vector<uint8_t> cells_;
};

}  // namespace plimsoll::text
