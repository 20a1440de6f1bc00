#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/config/fields.h"
#include "plimsoll/config/problems.h"

/// Internal to config/: what one field holds, as text and against its bounds.
namespace plimsoll::config {

/// The value as TOML, absent where an optional is not set.
std::optional<std::string> value_text(const Field& field);
/// "a number", "a list of texts", "one of \"fp32\", \"bf16\"".
std::string expected_text(const Field& field);
/// For the documentation: "integer, at least 1".
std::string type_text(const Field& field);
/// Choices, bounds, finiteness and valid UTF-8.
void check_value(const std::string& name, const Field& field, Problems& problems);

/// One key of a whole tree with its value.
struct Entry {
  std::string key;
  std::optional<std::string> text;
  bool may_change = false;
};
std::vector<Entry> flatten(const Fields& root);

std::string join_key(std::string_view section, std::string_view key);
/// A text as a TOML string. Throws UsageError where it is not UTF-8.
std::string quote(std::string_view text);
bool is_utf8(std::string_view text) noexcept;
/// Without line breaks and other control characters, and at most so long.
std::string printable(std::string_view text);
std::string shorten(std::string_view text);

}  // namespace plimsoll::config
