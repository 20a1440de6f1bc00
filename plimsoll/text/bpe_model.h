#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plimsoll/text/string_table.h"

namespace plimsoll::text {

/// Joins the tokens `left` and `right` into `result`; its place in the list is its rank.
struct Merge {
  int32_t left, right, result;
};

/// Rank and result of pairs of ids: open addressing behind a filter that answers most misses from
/// one bit, since most neighbours in a word never merge.
class PairTable {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  explicit PairTable(size_t pairs);
  /// The last put of a pair counts.
  void put(int32_t left, int32_t right, uint64_t value);
  uint64_t get(uint32_t left, uint32_t right) const;

 private:
  struct Slot {
    uint64_t key, value;
  };
  static uint64_t hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15ull;
    return key ^ (key >> 29);
  }
  std::vector<Slot> slots_;
  std::vector<uint64_t> filter_;
  uint64_t mask_;
  int filter_shift_;
};

/// Buffers of one thread for long words.
struct MergeScratch {
  std::vector<uint32_t> ids;
  std::vector<uint64_t> values;
  std::vector<uint64_t> heap;
  std::vector<int64_t> next, previous;
  std::string kept;
};

/// Byte-level BPE over one word. Immutable: any number of threads may encode, each with a scratch
/// of its own.
class BpeModel {
 public:
  struct Parts {
    std::array<int32_t, 256> byte_ids;  // -1: the vocabulary lacks the byte; it is dropped
    std::vector<Merge> merges;
    /// With ignore_merges: a word that is a token as it stands is that token.
    bool ignore_merges = false;
    StringTable words;              // bytes of tokens
    std::vector<int32_t> word_ids;  // by index in words
  };
  explicit BpeModel(Parts parts);

  /// Appends the ids of `word` to `out`; n log n in its length.
  void encode(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& out) const;

 private:
  std::string_view without_missing(std::string_view word, MergeScratch& scratch) const;
  void encode_short(std::string_view word, std::vector<int32_t>& out) const;
  void encode_long(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& out) const;
  uint64_t byte_pair(char a, char b) const {
    return byte_pairs_[static_cast<size_t>(static_cast<unsigned char>(a)) << 8 |
                       static_cast<unsigned char>(b)];
  }

  std::array<int32_t, 256> byte_ids_;
  bool bytes_missing_ = false;
  PairTable pairs_;
  std::vector<uint64_t> byte_pairs_;  // pairs_ of two single bytes, direct
  bool ignore_merges_;
  StringTable words_;
  std::vector<int32_t> word_ids_;
};

}  // namespace plimsoll::text
