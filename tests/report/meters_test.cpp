#include "plimsoll/report/meters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "plimsoll/base/error.h"

namespace plimsoll::report {
namespace {

TEST(Flops, OfTheLlama3DebugModel) {
  // 6 layers, 16 heads of 16, 2,048 tokens of vocabulary and of context, width 256.
  EXPECT_EQ(flops_per_token({6'163'712, 2048 * 256, 6, 16, 16, 2048}), 71'585'280);
}

TEST(Flops, TiedEmbeddingsAreNotSubtracted) {
  EXPECT_EQ(flops_per_token({1000, 0, 1, 1, 1, 1}), 6012);
  EXPECT_EQ(flops_per_token({1000, 400, 1, 1, 1, 1}), 3612);
}

TEST(Flops, ImpossibleSizesAreRefused) {
  EXPECT_THROW(flops_per_token({-1, 0, 1, 1, 1, 1}), Error);
  EXPECT_THROW(flops_per_token({1, 2, 1, 1, 1, 1}), Error);
  EXPECT_THROW(flops_per_token({1, 0, 1, 1, -1, 1}), Error);
  EXPECT_THROW(flops_per_token({INT64_MAX, 0, 1, 1, 1, 1}), Error);
  EXPECT_THROW(flops_per_token({1, 0, INT64_MAX, 1, 1, INT64_MAX}), Error);
  EXPECT_THROW(flops_per_token({INT64_MAX / 6, 0, 1, 1, INT64_MAX / 12, 1}), Error);
}

TEST(Rates, AreAbsentWhereNothingCanBeSaid) {
  EXPECT_EQ(tokens_per_second(1000, 0.5), 2000);
  EXPECT_FALSE(tokens_per_second(1000, 0));
  EXPECT_FALSE(tokens_per_second(1000, -1));
  EXPECT_FALSE(tokens_per_second(1000, std::nan("")));
  EXPECT_DOUBLE_EQ(*tflops(71'585'280, 10'000), 0.7158528);
  EXPECT_FALSE(tflops(71'585'280, std::nullopt));
  EXPECT_DOUBLE_EQ(*mfu(1'000'000, 1000, 4e9), 25);
  EXPECT_FALSE(mfu(1'000'000, 1000, std::nullopt));
  EXPECT_FALSE(mfu(1'000'000, 1000, 0));
  EXPECT_FALSE(mfu(1'000'000, std::nullopt, 4e9));
}

TEST(StepClock, ForgetsTheSlowFirstStep) {
  StepClock clock;
  EXPECT_FALSE(clock.remaining(5));
  clock.add(100);
  EXPECT_DOUBLE_EQ(*clock.remaining(5), 500);
  for (int i = 0; i < 100; ++i) clock.add(1);
  EXPECT_NEAR(*clock.remaining(5), 5, 0.02);
}

}  // namespace
}  // namespace plimsoll::report
