#include "plimsoll/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"kb", 1000},
                                          {"mb", 1000000},
                                          {"gb", 1000000000},
                                          {"tb", 1000000000000},
                                          {"kib", 1LL << 10},
                                          {"mib", 1LL << 20},
                                          {"gib", 1LL << 30},
                                          {"tib", 1LL << 40},
                                          {"k", 1LL << 10},
                                          {"m", 1LL << 20},
                                          {"g", 1LL << 30},
                                          {"t", 1LL << 40}}};

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(fmt::format("\"{}\" is not an amount of memory: {}", text, why),
              "write it as 2 GiB, 512 MB or a number of bytes");
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  const std::string_view trimmed = trim(text);
  std::size_t digits = 0;
  while (digits < trimmed.size() &&
         (std::isdigit(static_cast<unsigned char>(trimmed[digits])) || trimmed[digits] == '.')) {
    ++digits;
  }
  const std::string_view number = trimmed.substr(0, digits);
  std::string unit(trim(trimmed.substr(digits)));
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (number.empty()) refuse(text, "it does not start with a number");

  std::int64_t factor = 0;
  for (const Unit& known : kUnits) {
    if (known.name == unit) factor = known.bytes;
  }
  if (factor == 0) refuse(text, fmt::format("unknown unit \"{}\"", unit));

  const char* end = number.data() + number.size();
  std::int64_t whole = 0;
  const auto parsed = std::from_chars(number.data(), end, whole);
  if (parsed.ec == std::errc() && parsed.ptr == end) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(whole, factor, &bytes)) refuse(text, "too large");
    return bytes;
  }
  double fraction = 0;
  const auto real = std::from_chars(number.data(), end, fraction);
  if (parsed.ec == std::errc::result_out_of_range) refuse(text, "too large");
  if (real.ec != std::errc() || real.ptr != end) refuse(text, "not a number");
  const double bytes = std::round(fraction * static_cast<double>(factor));
  if (!(bytes < 0x1p63)) refuse(text, "too large");
  return static_cast<std::int64_t>(bytes);
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 would print as "1024 KiB".
  while (std::abs(value) >= (unit == 0 ? 1024.0 : 1023.5)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::ptrdiff_t first = digits[0] == '-' ? 1 : 0;
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

}  // namespace plimsoll
