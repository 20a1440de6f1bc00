#include "plimsoll/config/guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/config/config.h"

namespace plimsoll::config {
namespace {

/// The end of the string that starts at `begin` (past its closing quotes, or the end of the text).
std::size_t skip_string(std::string_view text, std::size_t begin) {
  const char mark = text[begin];
  const std::string three(3, mark);
  const bool many_lines = text.substr(begin, 3) == three;
  std::size_t i = begin + (many_lines ? 3 : 1);
  while (i < text.size()) {
    if (mark == '"' && text[i] == '\\') {
      i += 2;
    } else if (many_lines ? text.substr(i, 3) == three : text[i] == mark) {
      i += many_lines ? 3 : 1;
      // Up to two more quotes belong to the string: """a""""".
      for (int k = 0; many_lines && k < 2 && i < text.size() && text[i] == mark; ++k) ++i;
      return i;
    } else if (!many_lines && text[i] == '\n') {
      return i;  // not closed: the parser will say so
    } else {
      ++i;
    }
  }
  return text.size();
}

}  // namespace

std::string find_depth_problem(std::string_view text) {
  int depth = 0, dots = 0, line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = skip_string(text, i);
      line += static_cast<int>(std::count(text.begin() + i, text.begin() + end, '\n'));
      i = end;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == '\n') ++line;
    if (c == '.') ++dots;
    if (c == '\n' || c == ',' || c == '=' || c == '[' || c == ']' || c == '{' || c == '}') dots = 0;
    if (depth > kMaxNesting)
      return fmt::format("{}: brackets nest deeper than {}", line, kMaxNesting);
    if (dots >= kMaxKeyParts)
      return fmt::format("{}: a key has more than {} parts", line, kMaxKeyParts);
    ++i;
  }
  return {};
}

}  // namespace plimsoll::config
