#include <fmt/format.h>

#include "plimsoll/config/config.h"
#include "plimsoll/config/values.h"

namespace plimsoll::config {
namespace {

/// An array without entries must be written inside the table that holds it, before any header.
void write_keys(const Fields& fields, std::string& out) {
  for (const auto& field : fields.fields()) {
    const auto text = value_text(*field);
    out += text ? fmt::format("{} = {}\n", field->name, *text)
                : fmt::format("# {} is not set\n", field->name);
  }
  for (const auto& array : fields.arrays()) {
    if (array->size() == 0) out += fmt::format("{} = []\n", array->name);
  }
}

void write_inside(const Fields& fields, const std::string& path, std::string& out) {
  for (const auto& array : fields.arrays()) {
    const std::string name = join_key(path, array->name);
    for (std::size_t i = 0; i < array->size(); ++i) {
      const Fields element = array->element(i);
      out += fmt::format("\n[[{}]]\n", name);
      write_keys(element, out);
      write_inside(element, name, out);
    }
  }
  for (const auto& section : fields.sections()) {
    const std::string name = join_key(path, section->name());
    out += fmt::format("\n[{}]\n", name);
    write_keys(*section, out);
    write_inside(*section, name, out);
  }
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void write_tables(const Fields& fields, const std::string& heading, std::string_view help,
                  const std::string& path, std::string& out) {
  if (!heading.empty()) out += fmt::format("## `{}`\n\n", heading);
  if (!help.empty()) out += fmt::format("{}\n\n", help);
  if (!fields.fields().empty()) {
    out += "| key | takes | default | what it is |\n|---|---|---|---|\n";
    for (const auto& field : fields.fields()) {
      const auto text = value_text(*field);
      const std::string value = field->must_be_set ? "required"
                                : !text            ? "not set"
                                : *text == "\"\""  ? "empty"
                                                   : fmt::format("`{}`", *text);
      out += fmt::format("| `{}` | {} | {} | {} |\n", field->name, cell(type_text(*field)),
                         cell(value), cell(field->help));
    }
    out += '\n';
  }
  for (const auto& array : fields.arrays()) {
    const std::string name = join_key(path, array->name);
    write_tables(array->sample(), fmt::format("[[{}]]", name), array->help, name, out);
  }
  for (const auto& section : fields.sections()) {
    const std::string name = join_key(path, section->name());
    write_tables(*section, fmt::format("[{}]", name), section->help(), name, out);
  }
}

}  // namespace

std::string to_toml(const Fields& root) {
  std::string out;
  write_keys(root, out);
  write_inside(root, "", out);
  if (out.starts_with('\n')) out.erase(0, 1);
  return out;
}

std::string to_markdown(const Fields& root) {
  std::string out;
  write_tables(root, "", "", "", out);
  return out;
}

}  // namespace plimsoll::config
