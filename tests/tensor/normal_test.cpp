#include "plimsoll/tensor/normal.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/tensor/normal_kernel.h"

namespace plimsoll::tensor {
namespace {

using ::testing::ElementsAre;

at::Tensor filled(int64_t n, const Normal& normal, uint64_t seed) {
  at::Tensor out = at::empty({n}, at::TensorOptions().dtype(at::kFloat));
  fill_normal(out, normal, seed);
  return out;
}

// The known answers that the authors of the generator publish with it.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// Each number of a block against the counter it stands for, in double.
TEST(NormalBlock, IsTheInverseOfTheDistributionFunction) {
  const uint64_t seed = 0x0123456789abcdef, block = (uint64_t{1} << 33) + 5;
  for (const float range : {1.0f, 0.954499736f, 0.1f}) {
    std::vector<float> got(kNormalBlock);
    normal_block(got.data(), seed, block, range, 1);
    for (uint32_t i = 0; i < kNormalBlock; ++i) {
      const uint64_t counter = block * 64 + i % 64;
      const uint32_t bits =
          philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i / 64];
      const double u = range * ((bits >> 9) + 0.5) / (1 << 23);
      ASSERT_NEAR(std::erf(std::abs(got[i])), u, 1e-6) << i;
      ASSERT_EQ(std::signbit(got[i]), (bits & 1) != 0) << i;
    }
  }
}

TEST(FillNormal, HasTheMomentsOfItsDistribution) {
  const int64_t n = 1 << 20;
  at::Tensor x = filled(n, {.std = 0.5}, 7);
  EXPECT_NEAR(x.mean().item<double>(), 0, 4 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(x.std().item<double>(), 0.5, 0.002);
  EXPECT_NEAR((x / 0.5).pow(4).mean().item<double>(), 3, 0.05);
  EXPECT_GT(x.abs().max().item<double>(), 0.5 * 4.5);
  // Beyond one, two and three deviations: 31.73, 4.55 and 0.27 percent.
  for (const auto& [at, share] : {std::pair(1.0, 0.31731), {2.0, 0.045500}, {3.0, 0.0026998}}) {
    EXPECT_NEAR((x.abs() > 0.5 * at).sum().item<double>() / n, share, 0.0015);
  }
  x = filled(n, {.std = 2, .cut = 3}, 7);
  EXPECT_LE(x.abs().max().item<double>(), 3);
  EXPECT_GT(x.abs().max().item<double>(), 2.999);
  // Of a normal cut at 1.5 deviations: sqrt(1 - 2 * 1.5 * pdf(1.5) / 0.86639).
  EXPECT_NEAR(x.std().item<double>(), 2 * std::sqrt(1 - 3 * 0.129518 / 0.866386), 0.004);
}

TEST(FillNormal, AnElementDependsOnSeedAndPlaceAlone) {
  const int threads = at::get_num_threads();
  const at::Tensor long_one = filled(100000, {}, 1);
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(filled(100000, {}, 1), long_one));
  at::set_num_threads(threads);
  for (const int64_t n : {0, 1, 255, 256, 257, 5000}) {
    EXPECT_TRUE(at::equal(filled(n, {}, 1), long_one.narrow(0, 0, n))) << n;
  }
  const at::Tensor other = filled(100000, {}, 2);
  EXPECT_NEAR((other * long_one).mean().item<double>(), 0, 0.015) << "not correlated";
  EXPECT_FALSE(at::equal(filled(100000, {}, uint64_t{1} << 32), long_one))
      << "all bits of the seed";
}

TEST(FillNormal, RefusesOtherTensors) {
  EXPECT_THROW(fill_normal(at::empty({3}, at::TensorOptions().dtype(at::kDouble)), {}, 1), Error);
  EXPECT_THROW(fill_normal(at::empty({4, 4}, at::TensorOptions().dtype(at::kFloat)).t(), {}, 1),
               Error);
}

}  // namespace
}  // namespace plimsoll::tensor
