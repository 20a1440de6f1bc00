#include "plimsoll/data/permutation.h"

#include <algorithm>
#include <bit>

namespace plimsoll::data {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Permutation::Permutation(std::int64_t size, std::uint64_t seed)
    : size_(static_cast<std::uint64_t>(size)) {
  const int bits = std::bit_width(size_ > 0 ? size_ - 1 : 0);
  half_bits_ = std::max(1, (bits + 1) / 2);
  std::uint64_t state = mix64(seed + kGolden);
  for (std::uint64_t& key : keys_) key = mix64(state += kGolden);
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  // A Feistel network permutes the next even power of two; walking along its cycle until the value
  // is below size_ makes it a permutation of the range. The power is under 4 * size_, so the walk
  // takes under four steps on average.
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (mix64(right ^ key) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace plimsoll::data
