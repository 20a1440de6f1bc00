#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// Numbers distinct strings 0, 1, 2, ... in order of first appearance; all bytes lie in one arena.
/// Not thread-safe while it grows. Views stay valid until the next add().
class StringTable {
 public:
  StringTable();

  struct Added {
    uint32_t index;
    bool fresh;
  };
  /// Throws Error past 2^31 strings.
  Added add(std::string_view s);

  /// Index of `s`, or -1.
  int64_t find(std::string_view s) const;

  std::string_view operator[](uint32_t index) const {
    return std::string_view(arena_).substr(begin_[index], begin_[index + 1] - begin_[index]);
  }
  size_t size() const { return begin_.size() - 1; }
  void reserve(size_t strings, size_t bytes);

 private:
  struct Slot {
    uint32_t tag;             // high half of the hash
    uint32_t index_plus_one;  // 0: empty
  };
  size_t locate(std::string_view s, uint64_t hash) const;
  void grow(size_t slots);

  std::string arena_;
  std::vector<uint64_t> begin_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace plimsoll::text
