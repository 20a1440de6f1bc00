#pragma once

#include <array>
#include <cstdint>

#include "plimsoll/text/unicode.h"

namespace plimsoll::text {

/// Hand-written matchers of the patterns that byte-level tokenizers use: each takes the rest of a
/// piece, valid UTF-8 with begin < end, and returns the end of its first word. Several times
/// the speed of a regular-expression engine, and exact on Hugging Face's Unicode version.
class Scanner {
 public:
  Scanner() : table_(UnicodeTable::instance()) {
    for (uint32_t c = 0; c < 256; ++c) {
      byte_class_[c] = c < 128 ? static_cast<uint8_t>(table_.char_class(c)) : kMultiByte;
    }
  }

  /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  const char* gpt2(const char* begin, const char* end) const {
    if (*begin == '\'') {
      if (const char* p = contraction(begin + 1, end, 0)) return p;
    }
    const char* p = begin;
    if (*p == ' ' && ++p == end) return p;
    const Char c = next(p, end);
    switch (c.kind) {
      case CharClass::kSpace:
        return spaces(begin, run<CharClass::kSpace>(c.end, end), end);
      case CharClass::kLetter:
        return run<CharClass::kLetter>(c.end, end);
      case CharClass::kNumber:
        return run<CharClass::kNumber>(c.end, end);
      default:
        return run<CharClass::kOther>(c.end, end);
    }
  }

  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}|
  ///  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  template <int max_digits>
  const char* cl100k(const char* begin, const char* end) const {
    const Char first = next(begin, end);
    if (first.kind == CharClass::kLetter) return run<CharClass::kLetter>(first.end, end);
    if (*begin == '\'') {
      if (const char* p = contraction(begin + 1, end, 0x20)) return p;
    }
    const char* p = first.end;
    if (first.kind == CharClass::kNumber) {
      for (int n = 1; n < max_digits && p < end; ++n) {
        const Char c = next(p, end);
        if (c.kind != CharClass::kNumber) break;
        p = c.end;
      }
      return p;
    }
    bool others = first.kind == CharClass::kOther;
    if (p < end) {
      const Char second = next(p, end);
      if (second.kind == CharClass::kLetter && !is_newline(*begin)) {
        return run<CharClass::kLetter>(second.end, end);
      }
      others = others || (*begin == ' ' && second.kind == CharClass::kOther);
    }
    if (others) {
      p = run<CharClass::kOther>(p, end);
      while (p < end && is_newline(*p)) ++p;
      return p;
    }
    p = run<CharClass::kSpace>(p, end);
    for (const char* q = p; q > begin;) {  // \s*[\r\n]+ takes all up to the last newline
      if (is_newline(*--q)) return q + 1;
    }
    return spaces(begin, p, end);
  }

  bool is_numeric(const char* p) const { return table_.is_numeric(decode_utf8(p).code_point); }

 private:
  static constexpr uint8_t kMultiByte = 255;

  struct Char {
    CharClass kind;
    const char* end;
  };

  static bool is_newline(char c) { return c == '\r' || c == '\n'; }

  Char next(const char* p, const char* end) const {
    const uint8_t kind = byte_class_[static_cast<unsigned char>(*p)];
    if (kind != kMultiByte) return {static_cast<CharClass>(kind), p + 1};
    const Decoded c = decode_utf8(p);
    return {table_.char_class(c.code_point), p + c.size};
  }

  template <CharClass kind>
  const char* run(const char* p, const char* end) const {
    while (p < end) {
      const uint8_t byte_kind = byte_class_[static_cast<unsigned char>(*p)];
      if (byte_kind == static_cast<uint8_t>(kind)) {
        ++p;
        continue;
      }
      if (byte_kind != kMultiByte) break;
      const Decoded c = decode_utf8(p);
      if (table_.char_class(c.code_point) != kind) break;
      p += c.size;
    }
    return p;
  }

  // \s+(?!\S)|\s+ over the run [begin, p): before more text it gives back one character.
  static const char* spaces(const char* begin, const char* p, const char* end) {
    if (p == end) return p;
    const char* last = previous_character(p);
    return last == begin ? p : last;
  }

  // End of the contraction whose apostrophe is just before `p`, or null. `fold` is 0x20 to ignore
  // case; then U+017F counts as s.
  static const char* contraction(const char* p, const char* end, unsigned char fold) {
    if (p == end) return nullptr;
    auto at = [&](int i) { return static_cast<unsigned char>(p[i]); };
    const unsigned char a = at(0) | fold;
    if (at(0) < 0x80 && (a == 's' || a == 't' || a == 'm' || a == 'd')) return p + 1;
    if (end - p < 2) return nullptr;
    if (fold && at(0) == 0xC5 && at(1) == 0xBF) return p + 2;
    if (at(0) >= 0x80 || at(1) >= 0x80) return nullptr;
    const unsigned char b = at(1) | fold;
    const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? p + 2 : nullptr;
  }

  const UnicodeTable& table_;
  std::array<uint8_t, 256> byte_class_;
};

}  // namespace plimsoll::text
