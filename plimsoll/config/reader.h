#pragma once

#include <toml++/toml.h>
#include <string>

#include "plimsoll/config/fields.h"
#include "plimsoll/config/problems.h"

namespace plimsoll::config {

/// Internal to config/: reads one source (a file, or the value of one --set) into the structs
/// behind the fields, and notes for each key where it was set.
class Reader {
 public:
  /// `name` is the file's, or empty for --set.
  Reader(Problems& problems, const Fields& root, std::string name)
      : problems_(problems), root_(root), name_(std::move(name)) {}

  void read_table(const Fields& fields, const toml::table& table, const std::string& prefix);
  void read_entry(const Fields& fields, const std::string& name, const toml::node& node,
                  const std::string& prefix, const std::string& place);
  /// Names the nearest known key, here or elsewhere in the tree.
  void unknown(const Fields& fields, const std::string& name, bool section,
               const std::string& prefix, const std::string& place);

 private:
  std::string place(const toml::source_region& region) const;
  void wrong(const std::string& place, const std::string& key, const std::string& expected,
             const toml::node& node);
  void read_field(const Field& field, const toml::node& node, const std::string& key,
                  const std::string& place);
  void read_tables(const Tables& tables, const toml::node& node, const std::string& key,
                   const std::string& place);

  Problems& problems_;
  const Fields& root_;
  std::string name_;
};

}  // namespace plimsoll::config
