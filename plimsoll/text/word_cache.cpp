#include "plimsoll/text/word_cache.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::text {

namespace {

constexpr size_t kSmallSlots = size_t{1} << 15, kLargeSlots = size_t{1} << 15;
constexpr size_t kSmallWord = 16, kSmallIds = 3, kLargeWord = 255;
constexpr size_t kArenaBytes = size_t{8} << 20;

uint64_t mix(uint64_t a, uint64_t b) {
  const __uint128_t m = static_cast<__uint128_t>(a ^ 0x9E3779B97F4A7C15ull) *
                        static_cast<__uint128_t>(b ^ 0xD6E8FEB86659FD93ull);
  return static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
}

template <class T>
T load(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

struct Key {
  uint64_t low = 0, high = 0;
  size_t slot;
};

// The 1 to 16 bytes of a word as two numbers, by loads that may overlap but never leave the word.
Key small_key(std::string_view word) {
  Key key;
  const char* s = word.data();
  const size_t n = word.size();
  if (n >= 8) {
    key.low = load<uint64_t>(s);
    if (n > 8) key.high = load<uint64_t>(s + n - 8) >> (8 * (16 - n));
  } else if (n >= 4) {
    const uint64_t tail = load<uint32_t>(s + n - 4);
    key.low = load<uint32_t>(s) | (tail >> (8 * (8 - n))) << 32;
  } else {
    for (size_t i = 0; i < n; ++i) {
      key.low |= uint64_t{static_cast<unsigned char>(s[i])} << (8 * i);
    }
  }
  key.slot = mix(key.low + n, key.high) & (kSmallSlots - 1);
  return key;
}

uint64_t large_hash(std::string_view word) {
  const char* s = word.data();
  size_t n = word.size();
  uint64_t h = n * 0x9E3779B97F4A7C15ull;
  for (; n >= 8; n -= 8, s += 8) h = mix(h, load<uint64_t>(s));
  uint64_t rest = 0;
  std::memcpy(&rest, s, n);
  return mix(h, rest) | 1;
}

}  // namespace

WordCache::WordCache() : small_(kSmallSlots, Small{}), large_(kLargeSlots, Large{}) {}

bool WordCache::find(std::string_view word, std::vector<int32_t>& out) const {
  if (word.empty() || word.size() > kLargeWord) return false;
  if (word.size() <= kSmallWord) {
    const Key key = small_key(word);
    const Small& e = small_[key.slot];
    if (e.low == key.low && e.high == key.high && e.size == word.size()) {
      out.insert(out.end(), e.ids, e.ids + e.ids_size);
      return true;
    }
  }
  const uint64_t hash = large_hash(word);
  for (size_t i = hash >> 8 & (kLargeSlots - 1); large_[i].hash; i = (i + 1) & (kLargeSlots - 1)) {
    const Large& e = large_[i];
    if (e.hash != hash || e.size != word.size()) continue;
    const char* p = arena_.data() + e.begin;
    if (std::memcmp(p, word.data(), e.size) != 0) continue;
    const size_t old = out.size();
    out.resize(old + e.ids_size);
    if (e.ids_size) std::memcpy(out.data() + old, p + e.size, e.ids_size * sizeof(int32_t));
    return true;
  }
  return false;
}

void WordCache::store(std::string_view word, std::span<const int32_t> ids) {
  if (word.empty() || word.size() > kLargeWord) return;
  if (word.size() <= kSmallWord && ids.size() <= kSmallIds) {
    const Key key = small_key(word);
    Small& e = small_[key.slot];
    e.low = key.low;
    e.high = key.high;
    e.size = static_cast<uint16_t>(word.size());
    e.ids_size = static_cast<uint16_t>(ids.size());
    std::copy(ids.begin(), ids.end(), e.ids);
    return;
  }
  const size_t bytes = word.size() + ids.size_bytes();
  if (arena_.size() + bytes > kArenaBytes || large_count_ * 2 > kLargeSlots) {
    std::fill(large_.begin(), large_.end(), Large{});
    arena_.clear();
    large_count_ = 0;
  }
  const uint64_t hash = large_hash(word);
  size_t i = hash >> 8 & (kLargeSlots - 1);
  while (large_[i].hash) i = (i + 1) & (kLargeSlots - 1);
  large_[i] = {hash, static_cast<uint32_t>(arena_.size()), static_cast<uint16_t>(word.size()),
               static_cast<uint16_t>(ids.size())};
  arena_.insert(arena_.end(), word.begin(), word.end());
  const char* p = reinterpret_cast<const char*>(ids.data());
  arena_.insert(arena_.end(), p, p + ids.size_bytes());
  ++large_count_;
}

}  // namespace plimsoll::text
