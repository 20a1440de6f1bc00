#pragma once

#include <cstdint>

namespace plimsoll::data {

/// The first bytes of a token store file, little-endian. After it: the tokens (uint16 or uint32,
/// one document after the other), zeros up to a multiple of 8, then documents + 1 uint64: where
/// each document starts, in tokens.
struct TokenFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t id_bytes;
  std::uint64_t file_size;
  std::uint64_t index_offset;
  std::int64_t documents;
  std::int64_t tokens;
  std::int64_t vocab_size;
  std::int64_t bytes;
  std::int64_t dropped_short;
  std::int64_t skipped_lines;
  std::int64_t bad_utf8;
  char key[32];
  char tokens_hash[32];
  char index_hash[32];
  char reserved[64];
  std::uint64_t checksum;  ///< xxh3-64 of all bytes before it
};
static_assert(sizeof(TokenFileHeader) == 256);

inline constexpr char kTokenFileMagic[8] = {'P', 'L', 'M', 'T', 'O', 'K', '\r', '\n'};
inline constexpr std::uint32_t kTokenFileVersion = 1;

}  // namespace plimsoll::data
