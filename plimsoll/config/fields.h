#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plimsoll::config {

class Problems;

/// What a field may point to. uint64_t is a size in bytes ("2 GiB" or a number) and is reached
/// through Fields::bytes only.
using Target =
    std::variant<bool*, int64_t*, double*, std::string*, uint64_t*, std::vector<std::string>*,
                 std::vector<double>*, std::vector<int64_t>*, std::optional<bool>*,
                 std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*,
                 std::optional<uint64_t>*, std::optional<std::vector<std::string>>*,
                 std::optional<std::vector<double>>*, std::optional<std::vector<int64_t>>*>;

/// One key of a section: where its value lives and what may be written there. The setters return
/// the field, so that a description is one line:
///   f.field("lr", lr, "learning rate at the top of the schedule").above(0).may_change();
/// Bounds hold for each entry of a list.
struct Field {
  std::string name;
  std::string help;
  Target target;
  std::vector<std::string> choices;  // empty: any text
  std::optional<double> minimum, maximum;
  bool minimum_excluded = false, maximum_excluded = false;
  bool changeable = false, must_be_set = false, any_number = false;

  Field& at_least(double bound) { return minimum = bound, minimum_excluded = false, *this; }
  Field& above(double bound) { return minimum = bound, minimum_excluded = true, *this; }
  Field& at_most(double bound) { return maximum = bound, maximum_excluded = false, *this; }
  Field& below(double bound) { return maximum = bound, maximum_excluded = true, *this; }
  /// The value may differ from the checkpoint's when a run is resumed.
  Field& may_change() { return changeable = true, *this; }
  /// A recipe without this key is refused.
  Field& required() { return must_be_set = true, *this; }
  /// NaN and infinities are accepted (otherwise they are refused).
  Field& allow_non_finite() { return any_number = true, *this; }
};

struct Tables;

/// The description of one struct: its keys, the sections inside it and its arrays of tables, in the
/// order in which the struct's describe() named them. It points into the struct and must not
/// outlive it. Names are bare TOML keys; a name given twice throws std::logic_error.
class Fields {
 public:
  Fields();
  Fields(Fields&&) noexcept;
  Fields& operator=(Fields&&) noexcept;
  ~Fields();

  /// A boolean, number, text or list of these, or an std::optional of one (absent: not set; the
  /// text "none" unsets an optional number, size or boolean). The current value is the default.
  template <class T>
  Field& field(std::string_view name, T& value, std::string_view help) {
    static_assert(!std::is_same_v<T, uint64_t> && !std::is_same_v<T, std::optional<uint64_t>>,
                  "use bytes() for sizes and int64_t for counts");
    return add(name, Target(&value), help);
  }
  /// A size in bytes: "512 MiB", "2GiB", or a plain number.
  Field& bytes(std::string_view name, uint64_t& value, std::string_view help);
  Field& bytes(std::string_view name, std::optional<uint64_t>& value, std::string_view help);
  /// A text that is one of `choices`.
  Field& choice(std::string_view name, std::string& value, std::vector<std::string> choices,
                std::string_view help);
  Field& choice(std::string_view name, std::optional<std::string>& value,
                std::vector<std::string> choices, std::string_view help);

  /// A nested struct with a describe() of its own: [name] in the file.
  template <class T>
  Fields& section(std::string_view name, T& value, std::string_view help = {});
  /// A vector of such structs: [[name]] in the file, which replaces what the vector held.
  template <class T>
  void tables(std::string_view name, std::vector<T>& values, std::string_view help = {});
  /// Marks every field of this section, and of those inside it, as one that may change on resume.
  Fields& may_change();

  const std::string& name() const noexcept { return name_; }
  const std::string& help() const noexcept { return help_; }
  const std::vector<std::unique_ptr<Field>>& fields() const noexcept { return fields_; }
  const std::vector<std::unique_ptr<Fields>>& sections() const noexcept { return sections_; }
  const std::vector<std::unique_ptr<Tables>>& arrays() const noexcept { return arrays_; }
  /// Runs the struct's own validate(), where it has one. Sections are not entered.
  void validate(Problems& problems) const;

 private:
  template <class T>
  friend Fields describe(T& value);

  Field& add(std::string_view name, Target target, std::string_view help);
  Fields& add_section(std::string_view name, Fields fields, std::string_view help);
  void add_tables(Tables tables);
  void check_name(std::string_view name) const;

  std::string name_, help_;
  std::vector<std::unique_ptr<Field>> fields_;
  std::vector<std::unique_ptr<Fields>> sections_;
  std::vector<std::unique_ptr<Tables>> arrays_;
  std::function<void(Problems&)> validate_;
  std::shared_ptr<void> owner_;
};

/// An array of tables behind functions: element(i) describes the i-th struct in place, sample() a
/// default one that the returned Fields owns, reset(n) leaves n default structs.
struct Tables {
  std::string name, help;
  std::function<std::size_t()> size;
  std::function<void(std::size_t)> reset;
  std::function<Fields(std::size_t)> element;
  std::function<Fields()> sample;
  bool changeable = false;
};

/// Describes any struct that has `void describe(config::Fields&)` and, if it wants,
/// `void validate(config::Problems&) const`.
template <class T>
Fields describe(T& value) {
  Fields fields;
  value.describe(fields);
  if constexpr (requires(const T& c, Problems& p) { c.validate(p); }) {
    fields.validate_ = [&value](Problems& p) { value.validate(p); };
  }
  return fields;
}

template <class T>
Fields& Fields::section(std::string_view name, T& value, std::string_view help) {
  return add_section(name, config::describe(value), help);
}

template <class T>
void Fields::tables(std::string_view name, std::vector<T>& values, std::string_view help) {
  add_tables({std::string(name), std::string(help), [&values] { return values.size(); },
              [&values](std::size_t count) {
                values.clear();
                values.resize(count);
              },
              [&values](std::size_t i) { return config::describe(values.at(i)); },
              [] {
                auto value = std::make_shared<T>();
                Fields fields = config::describe(*value);
                fields.owner_ = std::move(value);
                return fields;
              }});
}

}  // namespace plimsoll::config
