#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/files.h"
#include "plimsoll/data/config.h"

namespace plimsoll::data {

/// What data/ needs to know of a tokenizer.
struct TokenizerView {
  /// Clears the vector and fills it with the ids of the text. BOS and EOS are added by the
  /// store as the config says, unless encode("") shows that encode does it.
  std::function<void(std::string_view, std::vector<std::int32_t>&)> encode;
  /// Equal exactly when encode gives the same ids for every text.
  std::string fingerprint;
  std::int64_t vocab_size = 0;
  std::int32_t bos = -1;  ///< -1: has none
  std::int32_t eos = -1;
};

struct TokenStats {
  std::int64_t documents = 0;      ///< kept
  std::int64_t tokens = 0;         ///< BOS and EOS included
  std::int64_t bytes = 0;          ///< text of all documents read, kept or not
  std::int64_t dropped_short = 0;  ///< documents under 2 tokens
  std::int64_t skipped_lines = 0;
  std::int64_t bad_utf8 = 0;
};

/// Tokenised documents in one read-only mapped file. Any number of threads may read.
class TokenStore {
 public:
  /// Opens a store file; Error if it is not whole (magic, version, header checksum, sizes, index
  /// checksum and order). The tokens' own checksum is only read by verify().
  explicit TokenStore(const std::filesystem::path& path);

  /// Hash of contents, tokenizer and options, 32 hex digits.
  const std::string& key() const { return key_; }
  const std::filesystem::path& path() const { return path_; }
  const TokenStats& stats() const { return stats_; }
  std::int64_t vocab_size() const { return vocab_size_; }

  std::int64_t documents() const { return stats_.documents; }
  /// Number of tokens of a document, at least 2.
  std::int64_t length(std::int64_t document) const;
  /// Tokens [first, first + count) of a document.
  void copy(std::int64_t document, std::int64_t first, std::int64_t count, std::int32_t* out) const;
  /// Reads everything; Error if the tokens do not match their checksum or exceed the vocabulary.
  void verify() const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::string key_;
  TokenStats stats_;
  std::int64_t vocab_size_ = 0;
  std::int64_t id_bytes_ = 2;  // 2 or 4
  std::string tokens_hash_;
  const std::byte* tokens_ = nullptr;
  const std::uint64_t* index_ = nullptr;  // documents + 1 token offsets
};

/// Called now and then while a store is built; what it throws ends the build, leaving nothing.
struct BuildProgress {
  std::string_view file;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;
};
using OnBuildProgress = std::function<void(const BuildProgress&)>;

/// The store of these files (full paths, see expand_files) under the config's reading options:
/// opened from the cache folder, or built there. Of several processes asking at once one builds,
/// the others wait and open. A damaged cached file is built again. Memory does not grow with the
/// files. Error: unreadable input, no document of 2 tokens or more, an id outside the vocabulary,
/// add_bos or add_eos without such a token, a cache folder that cannot be written (hint:
/// data.cache_dir).
std::shared_ptr<const TokenStore> open_token_store(const std::vector<std::string>& files,
                                                   const DataConfig& config,
                                                   const TokenizerView& tokenizer,
                                                   const OnBuildProgress& progress = {});

}  // namespace plimsoll::data
