#include "plimsoll/tensor/storage.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace plimsoll::tensor {
namespace {

TEST(Storage, ViewsAreOneStorage) {
  const at::Tensor a = at::zeros({4, 4});
  const at::Tensor b = at::zeros({4, 4});
  EXPECT_TRUE(same_storage(a, a.t()));
  EXPECT_TRUE(same_storage(a.select(0, 3), a.select(0, 1)));
  EXPECT_FALSE(same_storage(a, b));
  EXPECT_TRUE(same_view(a, a.t().t()));
  EXPECT_FALSE(same_view(a, a.t()));
  EXPECT_FALSE(same_view(a.select(0, 0), a.select(0, 1)));
}

TEST(Storage, TellsTensorsWithoutMemoryApart) {
  const auto meta = at::TensorOptions(at::kMeta);
  const at::Tensor a = at::empty({2}, meta);
  EXPECT_FALSE(same_storage(a, at::empty({2}, meta)));
  EXPECT_TRUE(same_storage(a, a.view({2, 1})));
  EXPECT_FALSE(same_storage(at::empty({0}), at::empty({0})));
  EXPECT_FALSE(same_storage(at::Tensor(), at::Tensor()));
}

TEST(Storage, CountsEachOnce) {
  const at::Tensor a = at::zeros({4, 4});
  const std::vector<at::Tensor> all{a, a.t(), a.select(0, 1), at::zeros({2}), at::Tensor()};
  EXPECT_EQ(unique_storage_bytes(all), 64 + 8);
}

}  // namespace
}  // namespace plimsoll::tensor
