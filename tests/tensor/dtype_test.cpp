#include "plimsoll/tensor/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/tensor/torch_version.h"

namespace plimsoll::tensor {
namespace {

TEST(DType, TakesShortAndLongNames) {
  EXPECT_EQ(dtype_from_name("bf16"), c10::ScalarType::BFloat16);
  EXPECT_EQ(dtype_from_name("bfloat16"), c10::ScalarType::BFloat16);
  EXPECT_EQ(dtype_from_name("torch.float32"), c10::ScalarType::Float);
  EXPECT_EQ(dtype_name(c10::ScalarType::Float), "fp32");
  for (const auto type : {c10::ScalarType::Half, c10::ScalarType::Long, c10::ScalarType::Bool}) {
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type);
  }
}

TEST(DType, UnknownNameListsTheKnownOnes) {
  try {
    dtype_from_name("bf17");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("\"bf17\""));
    EXPECT_THAT(e.hint(), testing::HasSubstr("bf16"));
  }
}

TEST(TorchVersion, IsTheOneWeWereBuiltAgainst) {
  EXPECT_GE(std::strlen(kTorchVersion), 5u);
  EXPECT_TRUE((std::is_constructible_v<bool, NodePtr>));
}

}  // namespace
}  // namespace plimsoll::tensor
