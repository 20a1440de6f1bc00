#include "plimsoll/text/byte_level.h"

#include "plimsoll/text/unicode.h"

namespace plimsoll::text {

namespace {

struct Alphabet {
  std::array<uint16_t, 256> character;
  std::array<int16_t, 0x144> byte;  // by character; -1 outside the alphabet
};

const Alphabet& alphabet() {
  static const Alphabet table = [] {
    Alphabet a;
    a.byte.fill(-1);
    uint16_t next = 256;  // bytes without a printable Latin-1 character, in order
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      a.character[b] = printable ? static_cast<uint16_t>(b) : next++;
      a.byte[a.character[b]] = static_cast<int16_t>(b);
    }
    return a;
  }();
  return table;
}

}  // namespace

const std::array<uint16_t, 256>& byte_characters() {
  return alphabet().character;
}

void append_spelling(std::string_view bytes, std::string& out) {
  for (const char b : bytes) append_utf8(alphabet().character[static_cast<unsigned char>(b)], out);
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  const Alphabet& a = alphabet();
  std::string bytes;
  for (size_t i = 0; i < spelling.size();) {
    const Decoded c = decode_utf8(spelling.data() + i);
    if (c.code_point >= a.byte.size() || a.byte[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(a.byte[c.code_point]);
    i += c.size;
  }
  return bytes;
}

}  // namespace plimsoll::text
