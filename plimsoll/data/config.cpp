#include "plimsoll/data/config.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_set>

#include "plimsoll/base/error.h"
#include "plimsoll/config/problems.h"

namespace plimsoll::data {
namespace fs = std::filesystem;
namespace {

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

void DataConfig::describe(config::Fields& f) {
  constexpr double kMaxDocument = 2.0 * (1 << 30);
  f.field("files", files, "text or JSONL files, plain, gzip or zstd; paths or globs")
      .required()
      .may_change();  // a checkpoint's data position knows their content
  f.field("tokenizer", tokenizer, "tokenizer.json or its folder").required().may_change();
  f.choice("format", format, {"auto", "text", "jsonl"}, "auto goes by the file's name");
  f.field("text_field", text_field, "JSONL: the member that holds the document");
  f.choice("text_documents", text_documents, {"file", "blank_lines", "line"},
           "plain text: what a document is");
  f.choice("on_bad_line", on_bad_line, {"fail", "skip"}, "a line that cannot be used");
  f.choice("invalid_utf8", invalid_utf8, {"fail", "replace"}, "bytes that are no UTF-8");
  f.field("max_document_bytes", max_document_bytes, "a longer document is a bad line")
      .at_least(1)
      .at_most(kMaxDocument);
  f.field("validation_files", validation_files, "held-out documents from files of their own")
      .may_change();
  f.field("validation_fraction", validation_fraction, "share of documents held out")
      .at_least(0)
      .below(1);
  f.field("shuffle", shuffle, "documents in a new order each epoch");
  f.choice("packing", packing, {"concat", "first_fit"}, "how documents fill rows");
  f.field("repeat", repeat, "start over after the last document");
  f.field("add_bos", add_bos, "begin each document with the tokenizer's BOS");
  f.field("add_eos", add_eos, "end each document with the tokenizer's EOS");
  f.field("prefetch", prefetch, "batches made ahead by a thread; 0: none")
      .at_least(0)
      .at_most(1024)
      .may_change();
  f.field("cache_dir", cache_dir, "folder of tokenised documents (default: in $PLIMSOLL_CACHE)")
      .may_change();
}

void DataConfig::validate(config::Problems& p) const {
  p.check(!files.empty(), "files", "name at least one file");
  p.check(!text_field.empty(), "text_field", "must not be empty");
  p.check(validation_fraction == 0 || validation_files.empty(), "validation_fraction",
          "set this or data.validation_files, not both");
}

std::vector<std::string> expand_files(const std::vector<std::string>& patterns,
                                      const std::string& key) {
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  const std::string where = key.empty() ? "" : key + ": ";
  for (const std::string& pattern : patterns) {
    std::error_code code;
    std::vector<std::string> matches;
    if (fs::exists(pattern, code)) {
      matches = {pattern};
    } else if (pattern.find_first_of("*?[") != std::string::npos) {
      matches = glob_sorted(pattern);
      std::erase_if(matches, [&](const std::string& path) { return fs::is_directory(path, code); });
      if (matches.empty()) throw UsageError(fmt::format("{}no file matches {}", where, pattern));
    } else {
      throw UsageError(
          fmt::format("{}cannot open {}: {}", where, pattern,
                      code ? code.message() : std::string("No such file or directory")));
    }
    for (std::string& path : matches) {
      if (fs::is_directory(path, code)) {
        throw UsageError(fmt::format("{}{} is a folder", where, path),
                         fmt::format("name its files, e.g. {}", (fs::path(path) / "*").string()));
      }
      const fs::path real = fs::weakly_canonical(path, code);
      if (seen.insert(real.empty() ? path : real.string()).second) files.push_back(std::move(path));
    }
  }
  return files;
}

}  // namespace plimsoll::data
