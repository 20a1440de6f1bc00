// Building token stores in the cache folder and finding them there again.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "plimsoll/base/byte_source.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/data/content_hash.h"
#include "plimsoll/data/documents.h"
#include "plimsoll/data/token_file.h"
#include "plimsoll/data/token_store.h"

namespace plimsoll::data {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

/// Appends to a file in large pieces and hashes what it appends.
class BufferedHash {
 public:
  explicit BufferedHash(AtomicFile& file) : file_(file) { buffer_.reserve(kBuffer + 8); }

  void append(const void* bytes, std::size_t size) {
    buffer_.append(static_cast<const char*>(bytes), size);
    if (buffer_.size() >= kBuffer) flush();
  }
  void flush() {
    hash_.update(buffer_);
    file_.write(buffer_);
    buffer_.clear();
  }
  std::string hex() const { return hash_.hex(); }

 private:
  AtomicFile& file_;
  std::string buffer_;
  Xxh3 hash_;
};

class Builder {
 public:
  Builder(const fs::path& path, std::string key, const DataConfig& config,
          const TokenizerView& tokenizer, const OnBuildProgress& progress)
      : key_(std::move(key)),
        config_(config),
        tokenizer_(tokenizer),
        progress_(progress),
        store_(path),
        index_file_(fs::path(path) += ".index"),
        wide_(tokenizer.vocab_size > (1 << 16)) {
    const TokenFileHeader blank{};
    store_.write({reinterpret_cast<const char*>(&blank), sizeof(blank)});
    add_index();
    // A tokenizer that adds them by itself must not get them twice.
    tokenizer_.encode("", ids_);
    add_bos_ = config_.add_bos && (ids_.empty() || ids_.front() != tokenizer_.bos);
    add_eos_ = config_.add_eos && (ids_.empty() || ids_.back() != tokenizer_.eos);
  }

  void add_file(const std::string& file) {
    DocumentReader reader(open_byte_source(file), config_);
    Document document;
    const std::int64_t bytes_before = stats_.bytes;
    while (reader.next(document)) {
      add_document(document.text, file, document.line);
      stats_.bytes = bytes_before + reader.counts().bytes;
      if (progress_ && stats_.bytes - reported_ >= static_cast<std::int64_t>(kBuffer)) {
        reported_ = stats_.bytes;
        progress_({file, stats_.documents, stats_.tokens, stats_.bytes});
      }
    }
    stats_.skipped_lines += reader.counts().skipped;
    stats_.bad_utf8 += reader.counts().bad_utf8;
  }

  void finish(const std::vector<std::string>& files) {
    if (stats_.documents == 0) {
      throw Error(fmt::format("{} hold{} no document of 2 tokens or more ({} shorter ones)",
                              fmt::join(files, ", "), files.size() == 1 ? "s" : "",
                              stats_.dropped_short));
    }
    tokens_.flush();
    index_.flush();
    const std::string padding((8 - store_.size() % 8) % 8, '\0');
    store_.write(padding);

    TokenFileHeader header{};
    std::memcpy(header.magic, kTokenFileMagic, sizeof(header.magic));
    header.version = kTokenFileVersion;
    header.id_bytes = wide_ ? 4 : 2;
    header.index_offset = store_.size();
    append_index();
    header.file_size = store_.size();
    header.documents = stats_.documents;
    header.tokens = stats_.tokens;
    header.vocab_size = tokenizer_.vocab_size;
    header.bytes = stats_.bytes;
    header.dropped_short = stats_.dropped_short;
    header.skipped_lines = stats_.skipped_lines;
    header.bad_utf8 = stats_.bad_utf8;
    key_.copy(header.key, sizeof(header.key));
    tokens_.hex().copy(header.tokens_hash, sizeof(header.tokens_hash));
    index_.hex().copy(header.index_hash, sizeof(header.index_hash));
    header.checksum =
        xxh3_64({reinterpret_cast<const char*>(&header), offsetof(TokenFileHeader, checksum)});
    store_.write_at(0, {reinterpret_cast<const char*>(&header), sizeof(header)});
    store_.commit();
  }

 private:
  void add_document(std::string_view text, const std::string& file, std::int64_t line) {
    tokenizer_.encode(text, ids_);
    for (const std::int32_t id : ids_) {
      if (id < 0 || id >= tokenizer_.vocab_size) {
        throw Error(fmt::format("{}:{}: the tokenizer gave id {}, its vocabulary has {}", file,
                                line, id, tokenizer_.vocab_size));
      }
    }
    if (add_bos_) ids_.insert(ids_.begin(), tokenizer_.bos);
    if (add_eos_) ids_.push_back(tokenizer_.eos);
    if (ids_.size() < 2) {
      ++stats_.dropped_short;
      return;
    }
    if (wide_) {
      tokens_.append(ids_.data(), ids_.size() * sizeof(ids_[0]));
    } else {
      narrow_.assign(ids_.begin(), ids_.end());
      tokens_.append(narrow_.data(), narrow_.size() * sizeof(narrow_[0]));
    }
    ++stats_.documents;
    stats_.tokens += std::ssize(ids_);
    add_index();
  }

  void add_index() {
    const auto at = static_cast<std::uint64_t>(stats_.tokens);
    index_.append(&at, sizeof(at));
  }

  /// The index is kept in a file of its own until all tokens are written, not in memory.
  void append_index() {
    std::string buffer;
    for (std::uint64_t at = 0; at < index_file_.size(); at += buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(kBuffer, index_file_.size() - at));
      index_file_.read_at(at, buffer.data(), buffer.size());
      store_.write(buffer);
    }
  }

  std::string key_;
  const DataConfig& config_;
  const TokenizerView& tokenizer_;
  const OnBuildProgress& progress_;
  AtomicFile store_;
  AtomicFile index_file_;
  BufferedHash tokens_{store_};
  BufferedHash index_{index_file_};
  bool wide_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  TokenStats stats_;
  std::int64_t reported_ = 0;
  std::vector<std::int32_t> ids_;
  std::vector<std::uint16_t> narrow_;
};

void check_tokenizer(const DataConfig& config, const TokenizerView& tokenizer) {
  if (tokenizer.vocab_size < 1 || tokenizer.vocab_size > INT32_MAX) {
    throw Error(fmt::format("a tokenizer with {} entries", tokenizer.vocab_size));
  }
  const auto check = [&](bool wanted, std::int32_t id, std::string_view key,
                         std::string_view token) {
    if (!wanted) return;
    if (id < 0) {
      throw UsageError(fmt::format("data.{} = true: the tokenizer has no {} token", key, token),
                       fmt::format("set data.{} = false", key));
    }
    if (id >= tokenizer.vocab_size) {
      throw Error(fmt::format("the tokenizer's {} token has id {}, its vocabulary has {}", token,
                              id, tokenizer.vocab_size));
    }
  };
  check(config.add_bos, tokenizer.bos, "add_bos", "beginning-of-text");
  check(config.add_eos, tokenizer.eos, "add_eos", "end-of-text");
}

/// A whole store with this key, or nothing (absent or damaged).
std::shared_ptr<const TokenStore> find(const fs::path& path, const std::string& key) {
  std::error_code code;
  if (!fs::exists(path, code)) return nullptr;
  try {
    auto store = std::make_shared<const TokenStore>(path);
    if (store->key() == key) return store;
  } catch (const Error&) {
    // Built again below.
  }
  return nullptr;
}

std::string key_of(const std::vector<std::string>& files, const std::vector<ContentHash>& contents,
                   const DataConfig& config, const TokenizerView& tokenizer) {
  nlohmann::json parts = nlohmann::json::array();
  parts.push_back(kTokenFileVersion);
  for (std::size_t i = 0; i < files.size(); ++i) {
    parts.push_back({contents[i].hash, resolve_format(config.format, files[i])});
  }
  parts.push_back({config.text_field, config.text_documents, config.on_bad_line,
                   config.invalid_utf8, config.max_document_bytes});
  parts.push_back({tokenizer.fingerprint, tokenizer.vocab_size, config.add_bos ? tokenizer.bos : -1,
                   config.add_eos ? tokenizer.eos : -1});
  return xxh3_hex(parts.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::shared_ptr<const TokenStore> open_token_store(const std::vector<std::string>& files,
                                                   const DataConfig& config,
                                                   const TokenizerView& tokenizer,
                                                   const OnBuildProgress& progress) {
  check_tokenizer(config, tokenizer);
  const fs::path folder =
      config.cache_dir.empty() ? cache_folder() / "tokens" : fs::path(config.cache_dir);
  std::vector<ContentHash> contents;
  for (const std::string& file : files) contents.push_back(content_hash(file, folder / "hashes"));
  const std::string key = key_of(files, contents, config, tokenizer);
  const fs::path path = folder / (key + ".tokens");
  // Before any lock: a finished store must open from a cache folder that is read-only.
  if (auto store = find(path, key)) return store;

  std::optional<FileLock> lock;
  try {
    make_folders(folder);
    lock.emplace(folder / (key + ".lock"));
  } catch (const Error& error) {
    throw Error(fmt::format("the cache of tokens cannot be written: {}", error.what()),
                "set data.cache_dir, or PLIMSOLL_CACHE, to a folder you can write");
  }
  // Another process may have built it while this one waited.
  if (auto store = find(path, key)) return store;
  AtomicFile::remove_leftovers(path);
  AtomicFile::remove_leftovers(fs::path(path) += ".index");

  Builder builder(path, key, config, tokenizer, progress);
  for (const std::string& file : files) builder.add_file(file);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (stamp_of(files[i]) != contents[i].stamp) {
      throw Error(fmt::format("{} changed while it was read", files[i]));
    }
  }
  builder.finish(files);
  return std::make_shared<const TokenStore>(path);
}

}  // namespace plimsoll::data
