#include "plimsoll/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll::optim {
namespace {

TEST(Schedule, TheReferenceRecipeOfTenSteps) {
  ScheduleConfig c{.warmup_steps = 2, .decay_ratio = 0.8, .decay = "linear"};
  const double expected[] = {0.5, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125};
  for (int64_t step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(lr_factor(c, step, 10), expected[step]) << step;
  }
}

TEST(Schedule, AHundredSteps) {
  ScheduleConfig c{.warmup_steps = 2, .decay_ratio = 0.8, .decay = "linear"};
  EXPECT_DOUBLE_EQ(lr_factor(c, 0, 100), 0.5);
  for (int64_t step = 1; step <= 20; ++step) EXPECT_EQ(lr_factor(c, step, 100), 1) << step;
  EXPECT_DOUBLE_EQ(lr_factor(c, 21, 100), 1 - 1.0 / 80);
  EXPECT_NEAR(lr_factor(c, 99, 100), 0.0125, 1e-12);
}

TEST(Schedule, ShapesMeetTheirEnds) {
  for (const char* decay : {"linear", "sqrt", "cosine"}) {
    ScheduleConfig c{.warmup_steps = 10, .decay_ratio = -1, .decay = decay, .min_factor = 0.1};
    double before = 1;
    for (int64_t step = 10; step < 1000; ++step) {
      double f = lr_factor(c, step, 1000);
      EXPECT_LE(f, before + 1e-12) << decay << step;
      EXPECT_GE(f, 0.1);
      before = f;
    }
    EXPECT_LT(before, 0.11) << decay;
  }
}

TEST(Schedule, WarmUpAndDecayLongerThanTheRunAreCut) {
  ScheduleConfig c{.warmup_steps = 50, .decay_ratio = 1};
  for (int64_t step = 0; step < 5; ++step) {
    EXPECT_DOUBLE_EQ(lr_factor(c, step, 5), static_cast<double>(step + 1) / 5);
  }
  EXPECT_EQ(lr_factor({.warmup_steps = 0, .decay_ratio = 0}, 0, 1), 1);
}

}  // namespace
}  // namespace plimsoll::optim
