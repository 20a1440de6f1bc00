#include "plimsoll/config/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "plimsoll/config/config.h"
#include "plimsoll/config/values.h"

namespace plimsoll::config {
namespace {

/// "a text ("fast")": what was found where something else was expected.
std::string found_text(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return fmt::format("a text ({})", shorten(quote(node.ref<std::string>())));
    case toml::node_type::integer:
      return fmt::format("an integer ({})", node.ref<int64_t>());
    case toml::node_type::floating_point:
      return fmt::format("a number ({})", node.ref<double>());
    case toml::node_type::boolean:
      return node.ref<bool>() ? "true" : "false";
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    case toml::node_type::date_time:
      return "a date and time";
    default:
      return "something else";
  }
}

/// Each takes a node into a value and says whether it could.
bool take(const toml::node& node, bool& value) {
  if (!node.is_boolean()) return false;
  value = node.ref<bool>();
  return true;
}

bool take(const toml::node& node, int64_t& value) {
  if (!node.is_integer()) return false;
  value = node.ref<int64_t>();
  return true;
}

bool take(const toml::node& node, double& value) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (node.is_integer() && node.ref<int64_t>() <= kExact && node.ref<int64_t>() >= -kExact) {
    value = static_cast<double>(node.ref<int64_t>());
    return true;
  }
  if (!node.is_floating_point()) return false;
  value = node.ref<double>();
  return true;
}

bool take(const toml::node& node, std::string& value) {
  if (!node.is_string()) return false;
  value = node.ref<std::string>();
  return true;
}

bool take(const toml::node& node, uint64_t& value) {
  if (node.is_integer() && node.ref<int64_t>() >= 0) {
    value = static_cast<uint64_t>(node.ref<int64_t>());
    return true;
  }
  if (!node.is_string()) return false;
  try {
    value = static_cast<uint64_t>(parse_bytes(node.ref<std::string>()));
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <class T>
bool take(const toml::node& node, std::vector<T>& values) {
  if (!node.is_array()) return false;
  std::vector<T> taken;
  for (const toml::node& entry : *node.as_array()) {
    T value{};
    if (!take(entry, value)) return false;
    taken.push_back(std::move(value));
  }
  values = std::move(taken);
  return true;
}

template <class T>
bool take(const toml::node& node, std::optional<T>& value) {
  if constexpr (!std::is_same_v<T, std::string>) {
    if (node.is_string() && node.ref<std::string>() == "none") {
      value.reset();
      return true;
    }
  }
  T taken{};
  if (!take(node, taken)) return false;
  value = std::move(taken);
  return true;
}

/// The full key of the first field of that name, or empty. Arrays of tables are not entered.
std::string find_name(const Fields& fields, const std::string& name, const std::string& prefix) {
  for (const auto& field : fields.fields()) {
    if (field->name == name) return join_key(prefix, name);
  }
  for (const auto& section : fields.sections()) {
    std::string found = find_name(*section, name, join_key(prefix, section->name()));
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::string Reader::place(const toml::source_region& region) const {
  return name_.empty() ? "--set" : fmt::format("{}:{}", name_, region.begin.line);
}

void Reader::wrong(const std::string& place, const std::string& key, const std::string& expected,
                   const toml::node& node) {
  problems_.add_line(
      fmt::format("{}: {}: expected {}, found {}", place, key, expected, found_text(node)));
}

void Reader::read_field(const Field& field, const toml::node& node, const std::string& key,
                        const std::string& place) {
  problems_.set_where(key, place);
  if (!std::visit([&](auto* value) { return take(node, *value); }, field.target)) {
    wrong(place, key, expected_text(field), node);
  }
}

void Reader::read_tables(const Tables& tables, const toml::node& node, const std::string& key,
                         const std::string& place) {
  const std::string expected = fmt::format("tables [[{}]]", key);
  if (!node.is_array()) return wrong(place, key, expected, node);
  const toml::array& array = *node.as_array();
  tables.reset(array.size());
  problems_.set_where(key, place);
  for (std::size_t i = 0; i < array.size(); ++i) {
    const toml::node& entry = array[i];
    const std::string entry_place = this->place(entry.source());
    if (!entry.is_table()) {
      wrong(entry_place, fmt::format("{}.{}", key, i), expected, entry);
      continue;
    }
    read_table(tables.element(i), *entry.as_table(), fmt::format("{}.{}", key, i));
    problems_.set_where(fmt::format("{}.{}", key, i), entry_place);
  }
}

void Reader::read_table(const Fields& fields, const toml::table& table, const std::string& prefix) {
  // A table keeps its keys sorted; problems read better in the order of the file.
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (auto&& [key, node] : table) entries.emplace_back(&key, &node);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.first->source().begin < b.first->source().begin;
  });
  for (const auto& [key, node] : entries) {
    read_entry(fields, std::string(key->str()), *node, prefix, place(key->source()));
  }
}

void Reader::read_entry(const Fields& fields, const std::string& name, const toml::node& node,
                        const std::string& prefix, const std::string& place) {
  const std::string key = join_key(prefix, name);
  for (const auto& field : fields.fields()) {
    if (field->name == name) return read_field(*field, node, key, place);
  }
  for (const auto& array : fields.arrays()) {
    if (array->name == name) return read_tables(*array, node, key, place);
  }
  for (const auto& section : fields.sections()) {
    if (section->name() != name) continue;
    if (!node.is_table()) return wrong(place, key, fmt::format("a section [{}]", key), node);
    problems_.set_where(key, place);
    return read_table(*section, *node.as_table(), key);
  }
  unknown(fields, name, node.is_table() || node.is_array_of_tables(), prefix, place);
}

void Reader::unknown(const Fields& fields, const std::string& name, bool section,
                     const std::string& prefix, const std::string& place) {
  std::vector<std::string> known;
  for (const auto& field : fields.fields()) known.push_back(field->name);
  for (const auto& array : fields.arrays()) known.push_back(array->name);
  for (const auto& inner : fields.sections()) known.push_back(inner->name());
  std::string line = fmt::format("{}: unknown {} {}", place, section ? "section" : "key",
                                 shorten(join_key(prefix, name)));
  if (problems_.full()) {
    // A hostile file has no end of unknown keys, and nobody will see what is near them.
  } else if (const std::string near = nearest(name, known); !near.empty()) {
    line += fmt::format("; did you mean {}?", join_key(prefix, near));
  } else if (const std::string other = find_name(root_, name, ""); !other.empty()) {
    line += fmt::format("; did you mean {}?", other);
  } else if (!known.empty()) {
    line += fmt::format("; known here: {}", fmt::join(known, ", "));
  }
  problems_.add_line(line);
}

}  // namespace plimsoll::config
