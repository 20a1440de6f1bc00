#include "plimsoll/data/token_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/data/token_file.h"

namespace plimsoll::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

template <typename Id>
void widen(const std::byte* from, std::int64_t count, std::int32_t* out) {
  const Id* ids = reinterpret_cast<const Id*>(from);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::int32_t>(ids[i]);
}

}  // namespace

TokenStore::TokenStore(const std::filesystem::path& path) : path_(path), file_(path) {
  const auto refuse = [&](std::string_view why) {
    throw Error(fmt::format("{} is not a whole token store: {}", path.string(), why),
                "remove the file; it is built again when it is needed");
  };
  TokenFileHeader header;
  if (file_.size() < sizeof(header)) refuse("it is shorter than its header");
  std::memcpy(&header, file_.text().data(), sizeof(header));
  if (std::memcmp(header.magic, kTokenFileMagic, sizeof(header.magic)) != 0) {
    refuse("it does not start with the marker of one");
  }
  if (header.version != kTokenFileVersion) {
    refuse(fmt::format("version {}, this program reads {}", header.version, kTokenFileVersion));
  }
  if (header.checksum !=
      xxh3_64({reinterpret_cast<const char*>(&header), offsetof(TokenFileHeader, checksum)})) {
    refuse("the header does not match its checksum");
  }
  // The checksum stops accidents; the arithmetic below must hold for any numbers.
  const std::uint64_t size = file_.size();
  if (header.file_size != size) {
    refuse(fmt::format("it has {} bytes, the header says {}", size, header.file_size));
  }
  if (header.id_bytes != 2 && header.id_bytes != 4) refuse("ids of neither 2 nor 4 bytes");
  const auto limit = static_cast<std::int64_t>(size);
  if (header.documents < 1 || header.documents > limit / 8 - 1 || header.tokens < 0 ||
      header.tokens > limit / header.id_bytes) {
    refuse("the counts do not fit in the file");
  }
  const auto documents = static_cast<std::uint64_t>(header.documents);
  const std::uint64_t tokens_end =
      sizeof(header) + static_cast<std::uint64_t>(header.tokens) * header.id_bytes;
  if (header.index_offset != (tokens_end + 7) / 8 * 8 ||
      header.index_offset + (documents + 1) * 8 != size) {
    refuse("its parts do not add up to its size");
  }
  if (header.vocab_size < 1 || header.vocab_size > (header.id_bytes == 2 ? 1 << 16 : INT32_MAX)) {
    refuse(fmt::format("a vocabulary of {}", header.vocab_size));
  }
  const std::string_view index = file_.text().substr(header.index_offset);
  if (xxh3_hex(index) != std::string_view(header.index_hash, sizeof(header.index_hash))) {
    refuse("the index does not match its checksum");
  }
  index_ = reinterpret_cast<const std::uint64_t*>(index.data());
  for (std::uint64_t i = 0; i < documents; ++i) {
    if (index_[i + 1] < index_[i] || index_[i + 1] - index_[i] < 2) {
      refuse(fmt::format("document {} has no room for 2 tokens", i));
    }
  }
  if (index_[0] != 0 || index_[documents] != static_cast<std::uint64_t>(header.tokens)) {
    refuse("the index does not cover the tokens");
  }
  key_.assign(header.key, sizeof(header.key));
  tokens_hash_.assign(header.tokens_hash, sizeof(header.tokens_hash));
  stats_ = {.documents = header.documents,
            .tokens = header.tokens,
            .bytes = header.bytes,
            .dropped_short = header.dropped_short,
            .skipped_lines = header.skipped_lines,
            .bad_utf8 = header.bad_utf8};
  vocab_size_ = header.vocab_size;
  id_bytes_ = header.id_bytes;
  tokens_ = file_.bytes().data() + sizeof(header);
}

std::int64_t TokenStore::length(std::int64_t document) const {
  return static_cast<std::int64_t>(index_[document + 1] - index_[document]);
}

void TokenStore::copy(std::int64_t document, std::int64_t first, std::int64_t count,
                      std::int32_t* out) const {
  const std::byte* from =
      tokens_ + (static_cast<std::int64_t>(index_[document]) + first) * id_bytes_;
  if (id_bytes_ == 2) {
    widen<std::uint16_t>(from, count, out);
  } else {
    widen<std::uint32_t>(from, count, out);
  }
}

void TokenStore::verify() const {
  const std::string_view bytes(reinterpret_cast<const char*>(tokens_),
                               static_cast<std::size_t>(stats_.tokens * id_bytes_));
  if (xxh3_hex(bytes) != tokens_hash_) {
    throw Error(fmt::format("{}: the tokens do not match their checksum", path_.string()),
                "remove the file; it is built again when it is needed");
  }
  std::vector<std::int32_t> ids;
  for (std::int64_t document = 0; document < documents(); ++document) {
    ids.resize(static_cast<std::size_t>(length(document)));
    copy(document, 0, length(document), ids.data());
    const auto outside = std::find_if(ids.begin(), ids.end(),
                                      [&](std::int32_t id) { return id < 0 || id >= vocab_size_; });
    if (outside != ids.end()) {
      throw Error(fmt::format("{}: document {} has id {}, the vocabulary has {}", path_.string(),
                              document, *outside, vocab_size_));
    }
  }
}

}  // namespace plimsoll::data
