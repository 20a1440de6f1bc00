#include "plimsoll/data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plimsoll::data {
namespace {

std::vector<std::int64_t> all(std::int64_t size, std::uint64_t seed) {
  const Permutation permutation(size, seed);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(permutation(i));
  return values;
}

TEST(Permutation, HoldsEveryNumberOnce) {
  for (std::int64_t size = 1; size < 300; ++size) {
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (const std::int64_t value : all(size, 5)) {
      ASSERT_GE(value, 0);
      ASSERT_LT(value, size);
      EXPECT_FALSE(seen[static_cast<std::size_t>(value)]);
      seen[static_cast<std::size_t>(value)] = true;
    }
  }
}

TEST(Permutation, IsTheSameOnEveryMachine) {
  EXPECT_EQ(all(1000, 42), all(1000, 42));
  // Saved runs depend on these.
  const std::vector<std::int64_t> first = all(1000, 42);
  EXPECT_EQ(std::vector<std::int64_t>(first.begin(), first.begin() + 8),
            (std::vector<std::int64_t>{473, 35, 614, 518, 596, 179, 368, 454}));
}

TEST(Permutation, DiffersBySeed) {
  EXPECT_NE(all(100, 1), all(100, 2));
  EXPECT_NE(all(100, 1), all(101, 1));
}

TEST(Permutation, PutsEveryNumberInEveryPlaceEquallyOften) {
  for (const std::int64_t size : {3, 7, 10, 16, 17}) {
    constexpr int kSeeds = 20000;
    std::vector<double> counts(static_cast<std::size_t>(size * size));
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const std::vector<std::int64_t> values = all(size, seed);
      for (std::int64_t i = 0; i < size; ++i) {
        counts[static_cast<std::size_t>(i * size + values[static_cast<std::size_t>(i)])] += 1;
      }
    }
    const double expected = kSeeds / static_cast<double>(size);
    double chi2 = 0;
    for (const double count : counts) chi2 += (count - expected) * (count - expected) / expected;
    const double freedom = static_cast<double>((size - 1) * (size - 1));
    // Five standard deviations above the mean.
    EXPECT_LT(chi2, freedom + 5 * std::sqrt(2 * freedom)) << size;
  }
}

TEST(Permutation, TakesSizesBeyondMemory) {
  const Permutation permutation(std::int64_t{1} << 61, 3);
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int64_t value = permutation(i);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, std::int64_t{1} << 61);
    EXPECT_NE(value, previous);
    previous = value;
  }
}

}  // namespace
}  // namespace plimsoll::data
