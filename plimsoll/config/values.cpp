#include "plimsoll/config/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "plimsoll/base/error.h"

namespace plimsoll::config {
namespace {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(int64_t value) {
  return fmt::format("{}", value);
}
std::string text_of(const std::string& value) {
  return quote(value);
}

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);  // the shortest that reads back to the same bits
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string text_of(uint64_t bytes) {
  struct Unit {
    int shift;
    const char* name;
  };
  for (const Unit unit : {Unit{40, "TiB"}, Unit{30, "GiB"}, Unit{20, "MiB"}, Unit{10, "KiB"}}) {
    if (bytes != 0 && bytes % (uint64_t{1} << unit.shift) == 0) {
      return fmt::format("\"{} {}\"", bytes >> unit.shift, unit.name);
    }
  }
  return fmt::format("{}", bytes);
}

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + text_of(value);
  return text + "]";
}

template <class T>
const char* noun() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, int64_t>) return "an integer";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, std::string>) return "a text";
  if constexpr (std::is_same_v<T, uint64_t>) return "a size such as \"512 MiB\"";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a list of texts";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "a list of numbers";
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return "a list of integers";
}

template <class T>
std::string noun_of(const T*) {
  if constexpr (IsOptional<T>::value) {
    using Inner = typename T::value_type;
    return noun<Inner>();
  } else {
    return noun<T>();
  }
}

std::string choices_text(const Field& field) {
  std::string text;
  for (const std::string& choice : field.choices)
    text += (text.empty() ? "" : ", ") + quote(choice);
  return text;
}

std::string bounds_text(const Field& field) {
  const auto number = [](double bound) { return fmt::format("{}", bound); };
  std::string text;
  if (field.minimum) {
    text += (field.minimum_excluded ? "above " : "at least ") + number(*field.minimum);
  }
  if (field.maximum) {
    if (!text.empty()) text += " and ";
    text += (field.maximum_excluded ? "below " : "at most ") + number(*field.maximum);
  }
  return text;
}

/// What is wrong with one value, or empty.
template <class T>
std::string fault(const Field& field, const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? fault(field, *value) : std::string();
  } else if constexpr (IsVector<T>::value) {
    for (const auto& entry : value) {
      if (std::string text = fault(field, entry); !text.empty()) return text;
    }
    return {};
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!is_utf8(value)) return "is not valid UTF-8";
    const auto& choices = field.choices;
    if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) {
      return {};
    }
    return "must be one of " + choices_text(field);
  } else if constexpr (std::is_same_v<T, bool>) {
    return {};
  } else {
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > uint64_t{INT64_MAX}) return "must fit in 63 bits, as TOML's integers do";
    }
    const double number = static_cast<double>(value);
    if (!field.any_number && !std::isfinite(number)) return "must be a finite number";
    const bool low = field.minimum &&
                     !(field.minimum_excluded ? number > *field.minimum : number >= *field.minimum);
    const bool high = field.maximum && !(field.maximum_excluded ? number < *field.maximum
                                                                : number <= *field.maximum);
    return low || high ? "must be " + bounds_text(field) : std::string();
  }
}

void flatten_into(const Fields& fields, const std::string& prefix, bool may_change,
                  std::vector<Entry>& entries) {
  for (const auto& field : fields.fields()) {
    entries.push_back(
        {join_key(prefix, field->name), value_text(*field), may_change || field->changeable});
  }
  for (const auto& array : fields.arrays()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      flatten_into(array->element(i), join_key(prefix, fmt::format("{}.{}", array->name, i)),
                   may_change || array->changeable, entries);
    }
  }
  for (const auto& section : fields.sections()) {
    flatten_into(*section, join_key(prefix, section->name()), may_change, entries);
  }
}

}  // namespace

std::optional<std::string> value_text(const Field& field) {
  return std::visit(
      [](const auto* value) -> std::optional<std::string> {
        if constexpr (IsOptional<std::remove_cvref_t<decltype(*value)>>::value) {
          return *value ? std::optional(text_of(**value)) : std::nullopt;
        } else {
          return text_of(*value);
        }
      },
      field.target);
}

std::string expected_text(const Field& field) {
  if (!field.choices.empty()) return "one of " + choices_text(field);
  return std::visit([](const auto* value) { return noun_of(value); }, field.target);
}

std::string type_text(const Field& field) {
  std::string text = expected_text(field);
  const std::string bounds = bounds_text(field);
  return bounds.empty() ? text : text + ", " + bounds;
}

void check_value(const std::string& name, const Field& field, Problems& problems) {
  const std::string text =
      std::visit([&](const auto* value) { return fault(field, *value); }, field.target);
  if (!text.empty()) problems.add(name, text);
}

std::vector<Entry> flatten(const Fields& root) {
  std::vector<Entry> entries;
  flatten_into(root, "", false, entries);
  return entries;
}

std::string join_key(std::string_view section, std::string_view key) {
  if (section.empty() || key.empty()) return std::string(section) + std::string(key);
  return fmt::format("{}.{}", section, key);
}

std::string quote(std::string_view text) {
  if (!is_utf8(text)) throw UsageError(fmt::format("\"{}\" is not valid UTF-8", shorten(text)));
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - i < static_cast<std::size_t>(more))
      return false;
    uint32_t point = lead & (0x3Fu >> more);
    for (int k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3Fu);
    }
    const uint32_t smallest = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    if (point < smallest || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  const bool readable = is_utf8(text);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !readable) ? '?' : c;
  }
  return out;
}

std::string shorten(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  if (text.size() <= kLongest) return std::string(text);
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace plimsoll::config
