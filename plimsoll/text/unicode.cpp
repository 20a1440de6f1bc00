#include "plimsoll/text/unicode.h"

#include <simdjson.h>

#include <iterator>

#include "plimsoll/text/unicode_tables.h"

namespace plimsoll::text {

namespace {

struct Sequence {
  size_t size;    // bytes that belong together
  bool valid;     // a whole character
  bool may_grow;  // valid so far, cut by the end of the text
};

// The sequence at the front of `s`, after table 3-7 of the Unicode standard: the second byte's
// range depends on the first, which rules out overlong forms, surrogates and what is past U+10FFFF.
Sequence scan_sequence(std::string_view s) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true, false};
  if (first < 0xC2 || first > 0xF4) return {1, false, false};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == s.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

}  // namespace

void append_utf8(uint32_t c, std::string& out) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 63));
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  }
}

bool is_valid_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

size_t repair_utf8(std::string_view bytes, bool more_follows, std::string& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Sequence sequence = scan_sequence(bytes.substr(at));
    if (sequence.may_grow && more_follows) break;
    if (sequence.valid) {
      out.append(bytes, at, sequence.size);
    } else {
      append_utf8(0xFFFD, out);
    }
    at += sequence.size;
  }
  return at;
}

const UnicodeTable& UnicodeTable::instance() {
  static const UnicodeTable table;
  return table;
}

UnicodeTable::UnicodeTable() {
  std::array<int64_t, 256> uniform;  // block whose 256 cells all hold that value, or -1
  uniform.fill(-1);
  size_t run = 0;
  auto last_before = [&](uint32_t end) {  // index of the last run that starts before `end`
    size_t i = run;
    while (i + 1 < std::size(tables::kPropertyRuns) && tables::kPropertyRuns[i + 1] >> 8 < end) ++i;
    return i;
  };
  for (uint32_t b = 0; b < block_.size(); ++b) {
    const uint32_t begin = b << 8, end = begin + 256;
    run = last_before(begin + 1);
    const auto first = static_cast<uint8_t>(tables::kPropertyRuns[run] & 255);
    const bool same = last_before(end) == run;
    if (same && uniform[first] >= 0) {
      block_[b] = static_cast<uint32_t>(uniform[first]);
      continue;
    }
    block_[b] = static_cast<uint32_t>(cells_.size());
    if (same) uniform[first] = block_[b];
    for (uint32_t c = begin; c < end; ++c) {
      run = last_before(c + 1);
      cells_.push_back(static_cast<uint8_t>(tables::kPropertyRuns[run] & 255));
    }
  }
}

}  // namespace plimsoll::text
