#pragma once

#include <array>
#include <cstdint>

namespace plimsoll::data {

/// A shuffle of 0..size-1 that takes no memory: operator() gives the i-th element. Fixed by
/// (size, seed), on every machine.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t seed);
  std::int64_t operator()(std::int64_t i) const;

 private:
  static constexpr std::size_t kRounds = 8;
  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

/// A well mixed 64-bit value of x (the finaliser of splitmix64).
std::uint64_t mix64(std::uint64_t x);

}  // namespace plimsoll::data
