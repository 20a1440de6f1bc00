#include "plimsoll/base/error.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Error, CarriesTheHintApartFromTheLine) {
  try {
    throw UsageError("train.steps = 0: must be at least 1", "set train.steps in the recipe");
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "train.steps = 0: must be at least 1");
    EXPECT_EQ(e.hint(), "set train.steps in the recipe");
  }
}

}  // namespace
}  // namespace plimsoll
