#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <type_traits>

#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "plimsoll/config/config.h"
#include "plimsoll/config/guard.h"
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

/// Reads one source (a file, or one --set) into the structs behind the fields.
struct Reader {
  Problems& problems;
  const Fields& root;
  std::string name;
  bool from_set = false;

  std::string place(const toml::source_region& region) const {
    return from_set ? "--set" : fmt::format("{}:{}", name, region.begin.line);
  }

  void wrong(const std::string& place, const std::string& key, const std::string& expected,
             const toml::node& node) {
    problems.add_line(
        fmt::format("{}: {}: expected {}, found {}", place, key, expected, found_text(node)));
  }

  void read_field(const Field& field, const toml::node& node, const std::string& key,
                  const std::string& place) {
    problems.set_where(key, place);
    if (!std::visit([&](auto* value) { return take(node, *value); }, field.target)) {
      wrong(place, key, expected_text(field), node);
    }
  }

  void read_tables(const Tables& tables, const toml::node& node, const std::string& key,
                   const std::string& place) {
    const std::string expected = fmt::format("tables [[{}]]", key);
    if (!node.is_array()) return wrong(place, key, expected, node);
    const toml::array& array = *node.as_array();
    tables.reset(array.size());
    problems.set_where(key, place);
    for (std::size_t i = 0; i < array.size(); ++i) {
      const toml::node& entry = array[i];
      const std::string entry_place = this->place(entry.source());
      if (!entry.is_table()) {
        wrong(entry_place, fmt::format("{}.{}", key, i), expected, entry);
        continue;
      }
      read_table(tables.element(i), *entry.as_table(), fmt::format("{}.{}", key, i));
      problems.set_where(fmt::format("{}.{}", key, i), entry_place);
    }
  }

  void read_table(const Fields& fields, const toml::table& table, const std::string& prefix) {
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

  void read_entry(const Fields& fields, const std::string& name, const toml::node& node,
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
      problems.set_where(key, place);
      return read_table(*section, *node.as_table(), key);
    }
    unknown(fields, name, node.is_table() || node.is_array_of_tables(), prefix, place);
  }

  void unknown(const Fields& fields, const std::string& name, bool section,
               const std::string& prefix, const std::string& place) {
    std::vector<std::string> known;
    for (const auto& field : fields.fields()) known.push_back(field->name);
    for (const auto& array : fields.arrays()) known.push_back(array->name);
    for (const auto& inner : fields.sections()) known.push_back(inner->name());
    std::string line = fmt::format("{}: unknown {} {}", place, section ? "section" : "key",
                                   shorten(join_key(prefix, name)));
    if (const std::string near = nearest(name, known); !near.empty()) {
      line += fmt::format("; did you mean {}?", join_key(prefix, near));
    } else if (const std::string other = same_name_elsewhere(name); !other.empty()) {
      line += fmt::format("; did you mean {}?", other);
    } else if (!known.empty()) {
      line += fmt::format("; known here: {}", fmt::join(known, ", "));
    }
    problems.add_line(line);
  }

  std::string same_name_elsewhere(const std::string& name) const {
    for (const Entry& entry : flatten(root)) {
      if (entry.key.ends_with("." + name)) return entry.key;
    }
    return {};
  }
};

/// Syntax errors are the parser's; it stops at the first.
std::optional<toml::table> parse(const Source& source, Problems& problems) {
  if (source.text.size() > kMaxFileBytes) {
    problems.add_line(
        fmt::format("{}: larger than {} bytes, which no recipe is", source.name, kMaxFileBytes));
    return std::nullopt;
  }
  if (const std::string problem = find_depth_problem(source.text); !problem.empty()) {
    problems.add_line(fmt::format("{}:{}", source.name, problem));
    return std::nullopt;
  }
  try {
    return toml::parse(std::string_view(source.text), source.name);
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    problems.add_line(
        fmt::format("{}:{}:{}: {}", source.name, at.line, at.column, shorten(e.description())));
    return std::nullopt;
  }
}

/// The value of a --set: TOML where it is TOML, else the text itself.
toml::table parse_set_value(const std::string& text) {
  if (text.size() <= kMaxFileBytes && find_depth_problem(text).empty()) {
    try {
      toml::table table = toml::parse("v = " + text);
      // A line break in the text could have brought in keys of its own.
      if (table.size() == 1 && text.find('\n') == std::string::npos) return table;
    } catch (const toml::parse_error&) {
    }
  }
  toml::table table;
  table.insert("v", text);
  return table;
}

bool holds_text(const Field& field) {
  return std::holds_alternative<std::string*>(field.target) ||
         std::holds_alternative<std::optional<std::string>*>(field.target);
}

bool holds_texts(const Field& field) {
  return std::holds_alternative<std::vector<std::string>*>(field.target) ||
         std::holds_alternative<std::optional<std::vector<std::string>>*>(field.target);
}

/// Walks "groups.0.lr" down to the struct that has the last part, then reads the value into it.
void apply_set(Reader& reader, const Fields& fields, const std::string& rest,
               const std::string& prefix, const std::string& text) {
  const std::size_t dot = rest.find('.');
  const std::string name = rest.substr(0, dot);
  if (dot != std::string::npos) {
    const std::string after = rest.substr(dot + 1), path = join_key(prefix, name);
    for (const auto& section : fields.sections()) {
      if (section->name() == name) return apply_set(reader, *section, after, path, text);
    }
    for (const auto& array : fields.arrays()) {
      if (array->name != name) continue;
      const std::string digits = after.substr(0, after.find('.'));
      std::size_t index = array->size();
      if (!digits.empty() && digits.size() < 6 &&
          digits.find_first_not_of("0123456789") == std::string::npos) {
        index = std::stoul(digits);
      }
      if (index >= array->size() || digits.size() == after.size()) {
        reader.problems.add_line(
            fmt::format("--set: {} has {} tables; write {}.0.key to set a key of the first", path,
                        array->size(), path));
        return;
      }
      return apply_set(reader, array->element(index), after.substr(digits.size() + 1),
                       join_key(path, digits), text);
    }
    return reader.unknown(fields, name, true, prefix, "--set");
  }
  toml::table table = parse_set_value(text);
  for (const auto& field : fields.fields()) {
    if (field->name != name) continue;
    // A shell takes quotes away: what is set into a text is text, even if it looks like a number.
    if (holds_text(*field) && !table["v"].is_string()) table.insert_or_assign("v", text);
    if (holds_texts(*field) && table["v"].is_string() && text != "none") {
      table.insert_or_assign("v", toml::array{*table["v"].value<std::string>()});
    }
  }
  reader.read_entry(fields, name, *table.get("v"), prefix, "--set");
}

void check(const Fields& fields, const std::string& prefix, bool whole, Problems& problems) {
  problems.enter(prefix);
  for (const auto& field : fields.fields()) {
    if (whole && field->must_be_set && !problems.was_set(join_key(prefix, field->name))) {
      problems.add_line(fmt::format("{} is required", join_key(prefix, field->name)));
    }
    check_value(field->name, *field, problems);
  }
  fields.validate(problems);
  for (const auto& array : fields.arrays()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      check(array->element(i), join_key(prefix, fmt::format("{}.{}", array->name, i)), whole,
            problems);
    }
  }
  for (const auto& section : fields.sections()) {
    check(*section, join_key(prefix, section->name()), whole, problems);
  }
}

}  // namespace

Source read_source(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& why) -> UsageError {
    return UsageError(fmt::format("cannot read the recipe {}: {}", path.string(), why));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw fail("it is a folder");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) throw fail(std::strerror(errno));
  Source source{path.string(), std::string(kMaxFileBytes + 1, '\0')};
  const std::size_t size = std::fread(source.text.data(), 1, source.text.size(), file.get());
  if (std::ferror(file.get())) throw fail(std::strerror(errno));
  if (size > kMaxFileBytes) throw fail(fmt::format("it is larger than {} bytes", kMaxFileBytes));
  source.text.resize(size);
  return source;
}

void load(const Source& source, const std::vector<std::string>& sets, const Fields& root) {
  Problems problems;
  bool readable = true;
  if (!source.name.empty()) {
    const auto table = parse(source, problems);
    readable = table.has_value();
    Reader reader{problems, root, source.name};
    if (table) reader.read_table(root, *table, "");
  }
  Reader reader{problems, root, "--set", true};
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.add_line(fmt::format("--set {}: expected section.key=value", shorten(set)));
      continue;
    }
    const auto first = set.find_first_not_of(" \t"), last = set.find_last_not_of(" \t", equals - 1);
    const std::string key =
        last == std::string::npos || last < first ? "" : set.substr(first, last + 1 - first);
    apply_set(reader, root, key, "", set.substr(equals + 1));
  }
  // After a syntax error nothing was read, and what is missing would only hide the cause.
  if (readable) {
    std::map<std::string, std::string> values;
    for (const Entry& entry : flatten(root)) values[entry.key] = entry.text.value_or("not set");
    problems.set_values(std::move(values));
    check(root, "", !source.name.empty(), problems);
  }
  problems.throw_if_any();
}

}  // namespace plimsoll::config
