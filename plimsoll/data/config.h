#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/config/fields.h"

namespace plimsoll::data {

/// Section [data] of a recipe.
struct DataConfig {
  /// Paths or globs (*, ?, [..] in any part); a glob's matches are taken in sorted order.
  std::vector<std::string> files;
  /// tokenizer.json or its folder; read by whoever opens the corpus.
  std::string tokenizer;
  /// auto (by name: .jsonl, .ndjson, .json are jsonl, with .gz or .zst after it or not; all else
  /// is text) | text | jsonl
  std::string format = "auto";
  /// JSONL: the member that holds the document.
  std::string text_field = "text";
  /// Plain text: what a document is: file | blank_lines | line
  std::string text_documents = "file";
  /// A line that cannot be used: fail | skip (counted)
  std::string on_bad_line = "fail";
  /// fail (then the line is a bad line) | replace (by U+FFFD, counted)
  std::string invalid_utf8 = "fail";
  /// A longer line or document is a bad line. Bounds the reader's memory.
  std::int64_t max_document_bytes = std::int64_t{256} << 20;

  /// Held-out documents: from files of their own, or a share of `files` chosen by a hash of the
  /// run's seed and the document's number. Not both.
  std::vector<std::string> validation_files;
  double validation_fraction = 0.0;

  bool shuffle = true;
  /// concat | first_fit
  std::string packing = "concat";
  bool repeat = true;
  bool add_bos = true;
  bool add_eos = true;
  /// Batches made ahead by a thread; 0 makes them in the calling thread.
  std::int64_t prefetch = 2;
  /// Tokenised documents are kept here; empty: tokens/ in cache_folder().
  std::string cache_dir;

  void describe(config::Fields& f);
  void validate(config::Problems& p) const;
};

/// The files that the patterns name, each once, in order. UsageError for a missing file or a
/// pattern without a match; `key` ("data.files", or empty) is what its message begins with.
std::vector<std::string> expand_files(const std::vector<std::string>& patterns,
                                      const std::string& key);

}  // namespace plimsoll::data
