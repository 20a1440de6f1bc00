#include "plimsoll/checkpoint/quote.h"

namespace plimsoll::checkpoint {

std::string printable(std::string_view text, std::size_t limit) {
  std::string_view kept = text;
  if (kept.size() > limit) {
    kept = kept.substr(0, limit);
    // Not through the middle of a UTF-8 sequence.
    while (!kept.empty() && (static_cast<unsigned char>(text[kept.size()]) & 0xC0) == 0x80) {
      kept.remove_suffix(1);
    }
  }
  std::string out(kept);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (kept.size() < text.size()) out += "...";
  return out;
}

std::string quote(std::string_view text) {
  return '"' + printable(text) + '"';
}

}  // namespace plimsoll::checkpoint
