#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace plimsoll::cli {

/// For check(): plain decimal digits within the bounds. The parser's own conversion wraps a sign,
/// cuts what is too large and reads a leading zero as octal.
inline CLI::Validator whole_number(uint64_t lowest, uint64_t highest) {
  const std::string range =
      highest >= INT64_MAX ? fmt::format(">={}", lowest) : fmt::format("{} to {}", lowest, highest);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool plain = error == std::errc() && stop == end && (text[0] != '0' || value == 0);
        if (plain && text.size() <= 20 && value >= lowest && value <= highest) return {};
        return fmt::format("{} is not a whole number, {}", text, range);
      },
      range);
}

}  // namespace plimsoll::cli
