#include "plimsoll/data/config.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <unordered_set>

#include "plimsoll/base/error.h"

namespace plimsoll::data {
namespace fs = std::filesystem;
namespace {

void check_choice(std::vector<std::string>& problems, std::string_view key,
                  const std::string& value, std::initializer_list<std::string_view> choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  problems.push_back(
      fmt::format("data.{} = \"{}\": must be {}", key, value, fmt::join(choices, ", ")));
}

std::vector<std::string> glob_sorted(const std::string& pattern) {
  ::glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  // glob sorts by the locale; the order of the data must not depend on it.
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<std::string> DataConfig::problems() const {
  std::vector<std::string> found;
  if (files.empty()) found.emplace_back("data.files: name at least one file");
  check_choice(found, "format", format, {"auto", "text", "jsonl"});
  check_choice(found, "text_documents", text_documents, {"file", "blank_lines", "line"});
  check_choice(found, "on_bad_line", on_bad_line, {"fail", "skip"});
  check_choice(found, "invalid_utf8", invalid_utf8, {"fail", "replace"});
  check_choice(found, "packing", packing, {"concat", "first_fit"});
  if (text_field.empty()) found.emplace_back("data.text_field: must not be empty");
  constexpr std::int64_t kMaxDocument = std::int64_t{2} << 30;
  if (max_document_bytes < 1 || max_document_bytes > kMaxDocument) {
    found.push_back(fmt::format("data.max_document_bytes = {}: must be from 1 to {}",
                                max_document_bytes, kMaxDocument));
  }
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0)) {
    found.push_back(fmt::format("data.validation_fraction = {}: must be at least 0 and below 1",
                                validation_fraction));
  } else if (validation_fraction > 0.0 && !validation_files.empty()) {
    found.emplace_back("data.validation_files and data.validation_fraction: set one of them");
  }
  constexpr std::int64_t kMaxPrefetch = 1024;
  if (prefetch < 0 || prefetch > kMaxPrefetch) {
    found.push_back(
        fmt::format("data.prefetch = {}: must be from 0 to {}", prefetch, kMaxPrefetch));
  }
  return found;
}

void DataConfig::validate() const {
  const std::vector<std::string> found = problems();
  if (!found.empty()) throw UsageError(fmt::format("{}", fmt::join(found, "\n")));
}

std::vector<std::string> expand_files(const std::vector<std::string>& patterns,
                                      const std::string& key) {
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  for (const std::string& pattern : patterns) {
    std::error_code code;
    std::vector<std::string> matches;
    if (fs::exists(pattern, code)) {
      matches = {pattern};
    } else if (pattern.find_first_of("*?[") != std::string::npos) {
      matches = glob_sorted(pattern);
      std::erase_if(matches, [&](const std::string& path) { return fs::is_directory(path, code); });
      if (matches.empty()) throw UsageError(fmt::format("{}: no file matches {}", key, pattern));
    } else {
      throw UsageError(
          fmt::format("{}: cannot open {}: {}", key, pattern,
                      code ? code.message() : std::string("No such file or directory")));
    }
    for (std::string& path : matches) {
      if (fs::is_directory(path, code)) {
        throw UsageError(fmt::format("{}: {} is a folder", key, path),
                         fmt::format("name its files, e.g. {}", (fs::path(path) / "*").string()));
      }
      if (seen.insert(path).second) files.push_back(std::move(path));
    }
  }
  return files;
}

}  // namespace plimsoll::data
