#include "plimsoll/config/problems.h"

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/config/values.h"

namespace plimsoll::config {
void Problems::add(std::string_view key, std::string_view message) {
  const std::string full = join_key(section_, key);
  std::string line;
  if (const std::string place = where(full); !place.empty()) line = place + ": ";
  line += full;
  if (auto value = values_.find(full); value != values_.end()) {
    line += " = " + shorten(value->second);
    if (!was_set(full)) line += " (default)";
  }
  if (!full.empty()) line += ": ";
  line += message;
  add_line(line);
}

void Problems::add_line(std::string_view line) {
  lines_.push_back(printable(line));
}

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(lines_.size(), kMaxLines); ++i) {
    if (i != 0) text += '\n';
    text += lines_[i];
  }
  if (lines_.size() > kMaxLines) text += fmt::format("\nand {} more", lines_.size() - kMaxLines);
  throw UsageError(text);
}

void Problems::set_where(const std::string& full_key, std::string where) {
  where_[full_key] = std::move(where);
}

std::string Problems::where(const std::string& full_key) const {
  auto found = where_.find(full_key);
  return found == where_.end() ? std::string() : found->second;
}

}  // namespace plimsoll::config
