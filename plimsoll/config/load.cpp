#include <fmt/format.h>

#include <toml++/toml.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <type_traits>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"
#include "plimsoll/config/guard.h"
#include "plimsoll/config/reader.h"
#include "plimsoll/config/values.h"

namespace plimsoll::config {
namespace {

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
void apply_set(Reader& reader, Problems& problems, const Fields& fields, const std::string& rest,
               const std::string& prefix, const std::string& text) {
  const std::size_t dot = rest.find('.');
  const std::string name = rest.substr(0, dot);
  if (dot != std::string::npos) {
    const std::string after = rest.substr(dot + 1), path = join_key(prefix, name);
    for (const auto& section : fields.sections()) {
      if (section->name() == name) return apply_set(reader, problems, *section, after, path, text);
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
        problems.add_line(
            fmt::format("--set: {} has {} tables; write {}.0.key to set a key of the first", path,
                        array->size(), path));
        return;
      }
      return apply_set(reader, problems, array->element(index), after.substr(digits.size() + 1),
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

// `file` is the recipe that should have set what is required; empty when there is none.
void check(const Fields& fields, const std::string& prefix, const std::string& file,
           Problems& problems) {
  problems.enter(prefix);
  for (const auto& field : fields.fields()) {
    if (!file.empty() && field->must_be_set && !problems.was_set(join_key(prefix, field->name))) {
      problems.add_line(fmt::format("{}: {} is required", file, join_key(prefix, field->name)));
    }
    check_value(field->name, *field, problems);
  }
  fields.validate(problems);
  for (const auto& array : fields.arrays()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      check(array->element(i), join_key(prefix, fmt::format("{}.{}", array->name, i)), file,
            problems);
    }
  }
  for (const auto& section : fields.sections()) {
    check(*section, join_key(prefix, section->name()), file, problems);
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
    Reader reader(problems, root, source.name);
    if (table) reader.read_table(root, *table, "");
  }
  Reader reader(problems, root, {});
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.add_line(fmt::format("--set {}: expected section.key=value", shorten(set)));
      continue;
    }
    const auto first = set.find_first_not_of(" \t"), last = set.find_last_not_of(" \t", equals - 1);
    const std::string key =
        last == std::string::npos || last < first ? "" : set.substr(first, last + 1 - first);
    apply_set(reader, problems, root, key, "", set.substr(equals + 1));
  }
  // After a syntax error nothing was read, and what is missing would only hide the cause.
  if (readable) {
    std::map<std::string, std::string> values;
    for (const Entry& entry : flatten(root)) values[entry.key] = entry.text.value_or("not set");
    problems.set_values(std::move(values));
    check(root, "", source.name, problems);
  }
  problems.throw_if_any();
}

}  // namespace plimsoll::config
