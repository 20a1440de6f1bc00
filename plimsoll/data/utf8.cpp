#include "plimsoll/data/utf8.h"

#include <simdjson.h>

namespace plimsoll::data {
namespace {

struct Sequence {
  std::size_t length;
  bool valid;
};

/// The sequence that starts at `at`; when invalid, its length is that of the maximal ill-formed
/// part (Unicode, section 3.9).
Sequence sequence_at(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {1, true};
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return {1, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= bytes.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

/// The value of \uXXXX at `at`, or -1.
int escape_at(std::string_view json, std::size_t at) {
  if (at + 6 > json.size() || json[at] != '\\' || json[at + 1] != 'u') return -1;
  int value = 0;
  for (std::size_t i = at + 2; i < at + 6; ++i) {
    const char c = json[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  return simdjson::validate_utf8(bytes.data(), bytes.size());
}

std::size_t valid_utf8_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Sequence sequence = sequence_at(bytes, at);
    if (!sequence.valid) break;
    at += sequence.length;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 64);
  for (std::size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    if (sequence.valid) {
      out.append(bytes, at, sequence.length);
    } else {
      out.append("\xef\xbf\xbd");
    }
    at += sequence.length;
  }
  return out;
}

void replace_lone_surrogate_escapes(std::string& json) {
  for (std::size_t at = 0; at < json.size(); ++at) {
    if (json[at] != '\\') continue;
    const int value = escape_at(json, at);
    if (value >= 0xd800 && value <= 0xdbff) {
      const int next = escape_at(json, at + 6);
      if (next >= 0xdc00 && next <= 0xdfff) {
        at += 11;
        continue;
      }
    }
    if (value >= 0xd800 && value <= 0xdfff) json.replace(at, 6, "\\ufffd");
    at += value < 0 ? 1 : 5;  // past the escape, so that \\u is not taken for one
  }
}

}  // namespace plimsoll::data
