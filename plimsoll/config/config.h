#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/config/fields.h"
#include "plimsoll/config/problems.h"

/// Recipes: TOML files and `--set section.key=value` read into structs that describe themselves.
/// A Root is any struct with describe(); see fields.h. Everything here throws UsageError with one
/// line per problem: syntax errors (file:line:column), unknown keys with the nearest known one,
/// wrong types, values out of range, missing required keys, and what each struct's validate()
/// finds. After a throw the struct's values are unspecified.
namespace plimsoll::config {

/// A recipe larger than this, nested deeper, or with longer dotted keys is refused.
inline constexpr std::size_t kMaxFileBytes = 1 << 20;
inline constexpr int kMaxNesting = 32;
inline constexpr int kMaxKeyParts = 16;

/// Text of a recipe with the name to use in messages.
struct Source {
  std::string name;
  std::string text;
};

/// Reads a file for load(). Throws UsageError where it cannot be read or is larger than the cap.
Source read_source(const std::filesystem::path& path);

/// Reads `source` (skipped when its name is empty), then the sets in order, then checks everything.
void load(const Source& source, const std::vector<std::string>& sets, const Fields& root);

/// The usual entry: file, then --set, all problems at once.
template <class Root>
void load(const std::filesystem::path& path, const std::vector<std::string>& sets, Root& root) {
  load(read_source(path), sets, describe(root));
}

template <class Root>
void read_file(const std::filesystem::path& path, Root& root) {
  load(read_source(path), {}, describe(root));
}

/// Each is "section.key=value": the value is TOML, or bare text where the key holds text;
/// `optim.groups.0.lr=1` reaches into an array of tables. The last one for a key wins.
template <class Root>
void apply_sets(const std::vector<std::string>& sets, Root& root) {
  load(Source{}, sets, describe(root));
}

/// Checks ranges and runs every validate() over values that were set in code.
template <class Root>
void validate(Root& root) {
  load(Source{}, {}, describe(root));
}

/// The struct (a copy) as TOML; load() of it gives the same values, bit for bit. Unset optionals
/// are comments.
std::string to_toml(const Fields& root);
template <class Root>
std::string to_toml(Root root) {
  return to_toml(describe(root));
}

/// Markdown for docs/configuration.md: one table per section with key, type, default and help.
std::string to_markdown(const Fields& root);
template <class Root>
std::string to_markdown(Root root) {
  return to_markdown(describe(root));
}

/// One key whose value differs. A key that only one side has (an entry of an array of tables, an
/// unset optional) has an empty text on the other.
struct Difference {
  std::string key;
  std::string before, after;  // as in TOML
  bool may_change = false;
};

/// What differs between two structs of one type, in the order of description.
std::vector<Difference> compare(const Fields& before, const Fields& after);
template <class Root>
std::vector<Difference> compare(Root before, Root after) {
  return compare(describe(before), describe(after));
}

/// The candidate nearest to `word` by edit distance (a swap counts as one), or empty where none is
/// near enough to be what was meant.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace plimsoll::config
