#include "plimsoll/text/bpe_model.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace plimsoll::text {

namespace {

// Up to here a scan for the best pair is faster than a heap.
constexpr size_t kShortWord = 24;

uint64_t key_of(uint32_t left, uint32_t right) {
  return uint64_t{left} << 32 | right;
}

// A pair's value: rank in the high half, so that the least value merges first, and the result.
uint64_t rank_of(uint64_t value) {
  return value >> 32;
}
uint32_t result_of(uint64_t value) {
  return static_cast<uint32_t>(value);
}

}  // namespace

PairTable::PairTable(size_t pairs) {
  size_t slots = 64;
  while (slots < pairs * 2) slots *= 2;
  slots_.assign(slots, Slot{kNone, 0});
  mask_ = slots - 1;
  int filter_bits = 12;
  while (filter_bits < 21 && (size_t{1} << filter_bits) < pairs * 16) ++filter_bits;
  filter_.assign((size_t{1} << filter_bits) / 64, 0);
  filter_shift_ = 64 - filter_bits;
}

void PairTable::put(int32_t left, int32_t right, uint64_t value) {
  const uint64_t key = key_of(left, right), h = hash(key);
  const uint64_t bit = h >> filter_shift_;
  filter_[bit >> 6] |= uint64_t{1} << (bit & 63);
  uint64_t i = h & mask_;
  while (slots_[i].key != kNone && slots_[i].key != key) i = (i + 1) & mask_;
  slots_[i] = {key, value};
}

uint64_t PairTable::get(uint32_t left, uint32_t right) const {
  const uint64_t key = key_of(left, right), h = hash(key);
  const uint64_t bit = h >> filter_shift_;
  if (!(filter_[bit >> 6] >> (bit & 63) & 1)) return kNone;
  for (uint64_t i = h & mask_;; i = (i + 1) & mask_) {
    if (slots_[i].key == key) return slots_[i].value;
    if (slots_[i].key == kNone) return kNone;
  }
}

BpeModel::BpeModel(Parts parts)
    : byte_ids_(parts.byte_ids),
      pairs_(parts.merges.size()),
      byte_pairs_(65536, PairTable::kNone),
      ignore_merges_(parts.ignore_merges),
      words_(std::move(parts.words)),
      word_ids_(std::move(parts.word_ids)) {
  uint64_t rank = 0;
  for (const Merge& m : parts.merges) {
    pairs_.put(m.left, m.right, rank++ << 32 | static_cast<uint32_t>(m.result));
  }
  for (size_t a = 0; a < 256; ++a) {
    if (byte_ids_[a] < 0) bytes_missing_ = true;
    for (size_t b = 0; b < 256; ++b) {
      if (byte_ids_[a] < 0 || byte_ids_[b] < 0) continue;
      byte_pairs_[a << 8 | b] = pairs_.get(byte_ids_[a], byte_ids_[b]);
    }
  }
}

void BpeModel::encode(std::string_view word, MergeScratch& scratch,
                      std::vector<int32_t>& out) const {
  if (ignore_merges_) {
    if (const int64_t index = words_.find(word); index >= 0) {
      out.push_back(word_ids_[static_cast<size_t>(index)]);
      return;
    }
  }
  if (bytes_missing_) word = without_missing(word, scratch);
  if (word.empty()) return;
  if (word.size() <= kShortWord) {
    encode_short(word, out);
  } else {
    encode_long(word, scratch, out);
  }
}

// Hugging Face drops bytes that the vocabulary lacks, and their neighbours may then merge.
std::string_view BpeModel::without_missing(std::string_view word, MergeScratch& scratch) const {
  auto missing = [&](char b) { return byte_ids_[static_cast<unsigned char>(b)] < 0; };
  if (std::none_of(word.begin(), word.end(), missing)) return word;
  scratch.kept.clear();
  std::remove_copy_if(word.begin(), word.end(), std::back_inserter(scratch.kept), missing);
  return scratch.kept;
}

void BpeModel::encode_short(std::string_view word, std::vector<int32_t>& out) const {
  uint32_t ids[kShortWord];
  uint64_t values[kShortWord];  // of the pair that begins here
  size_t n = word.size();
  for (size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<unsigned char>(word[i])];
  for (size_t i = 0; i + 1 < n; ++i) values[i] = byte_pair(word[i], word[i + 1]);
  for (;;) {
    uint64_t best = PairTable::kNone;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; ++i) {  // strictly less: the leftmost of equal pairs
      if (values[i] < best) {
        best = values[i];
        at = i;
      }
    }
    if (best == PairTable::kNone) break;
    ids[at] = result_of(best);
    for (size_t i = at + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      values[i] = values[i + 1];
    }
    --n;
    if (at + 1 < n) values[at] = pairs_.get(ids[at], ids[at + 1]);
    if (at > 0) values[at - 1] = pairs_.get(ids[at - 1], ids[at]);
  }
  out.insert(out.end(), ids, ids + n);
}

// A linked list of tokens and a heap of (rank, position). Entries of the heap go stale when a
// neighbour merges first; they are told by the rank that the position holds now.
void BpeModel::encode_long(std::string_view word, MergeScratch& s,
                           std::vector<int32_t>& out) const {
  const size_t n = word.size();
  s.ids.resize(n);
  s.values.resize(n);
  s.next.resize(n);
  s.previous.resize(n);
  s.heap.clear();
  auto entry = [&](size_t i) { return rank_of(s.values[i]) << 32 | i; };
  for (size_t i = 0; i < n; ++i) {
    s.ids[i] = byte_ids_[static_cast<unsigned char>(word[i])];
    s.next[i] = i + 1 < n ? static_cast<int64_t>(i) + 1 : -1;
    s.previous[i] = static_cast<int64_t>(i) - 1;
    s.values[i] = i + 1 < n ? byte_pair(word[i], word[i + 1]) : PairTable::kNone;
    if (s.values[i] != PairTable::kNone) s.heap.push_back(entry(i));
  }
  const std::greater<uint64_t> later;
  std::make_heap(s.heap.begin(), s.heap.end(), later);
  auto renew = [&](size_t i) {  // the pair at i has changed
    const int64_t j = s.next[i];
    s.values[i] = j < 0 ? PairTable::kNone : pairs_.get(s.ids[i], s.ids[static_cast<size_t>(j)]);
    if (s.values[i] == PairTable::kNone) return;
    s.heap.push_back(entry(i));
    std::push_heap(s.heap.begin(), s.heap.end(), later);
  };
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), later);
    const uint64_t top = s.heap.back();
    s.heap.pop_back();
    const size_t i = static_cast<uint32_t>(top);
    if (s.values[i] == PairTable::kNone || rank_of(s.values[i]) != top >> 32) continue;
    const auto gone = static_cast<size_t>(s.next[i]);
    s.ids[i] = result_of(s.values[i]);
    s.values[gone] = PairTable::kNone;
    s.next[i] = s.next[gone];
    if (s.next[i] >= 0) s.previous[static_cast<size_t>(s.next[i])] = static_cast<int64_t>(i);
    renew(i);
    if (s.previous[i] >= 0) renew(static_cast<size_t>(s.previous[i]));
  }
  for (int64_t i = 0; i >= 0; i = s.next[static_cast<size_t>(i)]) {
    out.push_back(static_cast<int32_t>(s.ids[static_cast<size_t>(i)]));
  }
}

}  // namespace plimsoll::text
