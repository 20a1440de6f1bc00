#include "plimsoll/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plimsoll/config/problems.h"

namespace plimsoll::config {

Fields::Fields() = default;
Fields::Fields(Fields&&) noexcept = default;
Fields& Fields::operator=(Fields&&) noexcept = default;
Fields::~Fields() = default;

Field& Fields::bytes(std::string_view name, uint64_t& value, std::string_view help) {
  return add(name, Target(&value), help);
}

Field& Fields::bytes(std::string_view name, std::optional<uint64_t>& value, std::string_view help) {
  return add(name, Target(&value), help);
}

Field& Fields::choice(std::string_view name, std::string& value, std::vector<std::string> choices,
                      std::string_view help) {
  Field& field = add(name, Target(&value), help);
  field.choices = std::move(choices);
  return field;
}

Field& Fields::choice(std::string_view name, std::optional<std::string>& value,
                      std::vector<std::string> choices, std::string_view help) {
  Field& field = add(name, Target(&value), help);
  field.choices = std::move(choices);
  return field;
}

Fields& Fields::may_change() {
  for (auto& field : fields_) field->changeable = true;
  for (auto& section : sections_) section->may_change();
  for (auto& array : arrays_) array->changeable = true;
  return *this;
}

void Fields::validate(Problems& problems) const {
  if (validate_) validate_(problems);
}

Field& Fields::add(std::string_view name, Target target, std::string_view help) {
  check_name(name);
  fields_.push_back(std::make_unique<Field>(Field{std::string(name), std::string(help), target}));
  return *fields_.back();
}

Fields& Fields::add_section(std::string_view name, Fields fields, std::string_view help) {
  check_name(name);
  fields.name_ = name;
  fields.help_ = help;
  sections_.push_back(std::make_unique<Fields>(std::move(fields)));
  return *sections_.back();
}

void Fields::add_tables(Tables tables) {
  check_name(tables.name);
  arrays_.push_back(std::make_unique<Tables>(std::move(tables)));
}

void Fields::check_name(std::string_view name) const {
  const auto bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), bare)) {
    throw std::logic_error(fmt::format("a config field is named '{}'", name));
  }
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& e) {
      if constexpr (requires { e->name(); }) {
        return e->name() == name;
      } else {
        return e->name == name;
      }
    });
  };
  if (taken(fields_) || taken(sections_) || taken(arrays_)) {
    throw std::logic_error(fmt::format("a config field is named '{}' twice", name));
  }
}

}  // namespace plimsoll::config
