#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// Ids of words seen before, for one thread. Two levels: a direct-mapped table for words of up to
/// 16 bytes and 3 ids, which holds most of any language, and behind it an arena for words of up to
/// 255 bytes, emptied when full. At most 10 MB.
class WordCache {
 public:
  WordCache();

  /// Appends the ids of `word` and returns true, or returns false.
  bool find(std::string_view word, std::vector<int32_t>& out) const;

  /// Remembers what find() did not know; words that do not fit are let go.
  void store(std::string_view word, std::span<const int32_t> ids);

 private:
  struct alignas(32) Small {
    uint64_t low, high;  // the word's bytes, zero-padded
    uint16_t size;       // of the word; 0: empty
    uint16_t ids_size;
    int32_t ids[3];
  };
  struct Large {
    uint64_t hash;   // 0: empty
    uint32_t begin;  // in arena_: the word, then its ids
    uint16_t size, ids_size;
  };
  std::vector<Small> small_;
  std::vector<Large> large_;
  std::vector<char> arena_;
  size_t large_count_ = 0;
};

}  // namespace plimsoll::text
