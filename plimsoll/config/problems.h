#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::config {

/// Everything that is wrong with a recipe, gathered before anything is thrown. Keys given to it are
/// relative to the struct whose validate() is running; a problem's line starts with where the key
/// was set ("recipe.toml:12" or "--set") when it was set at all, then the full key and its value.
/// Not thread safe.
class Problems {
 public:
  static constexpr std::size_t kMaxLines = 50;

  /// Adds a problem with one key. An empty key means the section as a whole.
  void add(std::string_view key, std::string_view message);

  /// Adds a problem, formatted by fmt, unless `good` holds.
  template <class... Args>
  void check(bool good, std::string_view key, fmt::format_string<Args...> text, Args&&... args) {
    if (!good) add(key, fmt::format(text, std::forward<Args>(args)...));
  }

  /// Adds a finished line (a syntax error, an unknown key).
  void add_line(std::string_view line);

  bool empty() const noexcept { return lines_.empty(); }
  std::size_t size() const noexcept { return lines_.size(); }
  const std::vector<std::string>& lines() const noexcept { return lines_; }

  /// More problems than are shown: from here on they need not be looked into.
  bool full() const noexcept { return lines_.size() >= kMaxLines; }
  /// Throws a UsageError with one line per problem (at most kMaxLines, then how many more), if any.
  void throw_if_any() const;

  /// What the reader knows about each full key; used for the start of a line.
  void set_where(const std::string& full_key, std::string where);
  void set_values(std::map<std::string, std::string> values) { values_ = std::move(values); }
  bool was_set(const std::string& full_key) const { return where_.count(full_key) != 0; }
  /// Where a full key was set, or empty.
  std::string where(const std::string& full_key) const;
  /// The section ("optim", "optim.groups.0", "" for the root) that add() keys are relative to.
  void enter(std::string section) { section_ = std::move(section); }

 private:
  std::vector<std::string> lines_;
  std::map<std::string, std::string> where_, values_;
  std::string section_;
};

}  // namespace plimsoll::config
