#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/plain.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::random;
using testing::relative_difference;
using Tensors = std::vector<at::Tensor>;

/// Element (i, j) of a contiguous two-dimensional tensor.
double at2(const at::Tensor& t, int64_t i, int64_t j) {
  return t.to(at::kDouble).const_data_ptr<double>()[i * t.size(1) + j];
}

TEST(RopeTable, HoldsCosinesThenSinesOfPositionTimesFrequency) {
  auto table = rope_table(8, 5, 100.0);
  ASSERT_EQ(table.sizes(), (std::vector<int64_t>{5, 2, 4}));
  const float* p = table.const_data_ptr<float>();
  for (int position : {0, 1, 4}) {
    for (int j = 0; j < 4; ++j) {
      const double angle = position * std::pow(100.0, -2.0 * j / 8);
      EXPECT_FLOAT_EQ(p[(position * 2) * 4 + j], static_cast<float>(std::cos(angle)));
      EXPECT_FLOAT_EQ(p[(position * 2 + 1) * 4 + j], static_cast<float>(std::sin(angle)));
    }
  }
}

TEST(RopeTable, LlamaScalingSlowsLongWavesKeepsShortOnesAndBlendsBetween) {
  constexpr double kTheta = 500000.0;
  auto scaled = rope_table(128, 2, kTheta, LlamaRopeScaling{});
  const float* sines = scaled.const_data_ptr<float>() + 3 * 64;  // position 1
  int kept = 0, slowed = 0, between = 0;
  for (int j = 0; j < 64; ++j) {
    const double f = std::pow(kTheta, -2.0 * j / 128), wave = 2 * std::acos(-1.0) / f;
    double expected = f;
    if (wave > 8192) {
      expected = f / 8;
      ++slowed;
    } else if (wave >= 2048) {
      const double s = (8192 / wave - 1) / 3;
      expected = (1 - s) * f / 8 + s * f;
      ++between;
    } else {
      ++kept;
    }
    EXPECT_FLOAT_EQ(sines[j], static_cast<float>(std::sin(expected))) << j;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
  EXPECT_GT(between, 0);
}

TEST(RopeTable, RefusesNonsense) {
  EXPECT_THROW(rope_table(7, 4, 1e4), Error);
  EXPECT_THROW(rope_table(8, 0, 1e4), Error);
  EXPECT_THROW(rope_table(8, 4, 0.0), Error);
  EXPECT_THROW(rope_table(8, 4, std::nan("")), Error);
}

class RopeIn : public ::testing::TestWithParam<std::tuple<at::ScalarType, RopePairs>> {};
INSTANTIATE_TEST_SUITE_P(
    All, RopeIn,
    ::testing::Combine(::testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                       ::testing::Values(RopePairs::kInterleaved, RopePairs::kHalves)));

TEST_P(RopeIn, TurnsEachPairByItsAngleAndCopiesValues) {
  const auto [dtype, pairs] = GetParam();
  for (HeadLayout l : {HeadLayout{1, 1, 2}, HeadLayout{4, 2, 16}, HeadLayout{3, 1, 64},
                       HeadLayout{2, 2, 128}, HeadLayout{2, 1, 6}}) {
    for (const auto& lengths : {std::vector<int64_t>{1}, std::vector<int64_t>{3, 1, 5}}) {
      auto positions = testing::positions_of(lengths);
      const int64_t n = positions.size(0), half = l.head_dim / 2;
      auto table = rope_table(l.head_dim, 9, 50.0);
      auto x = random({n, l.width() + 4}, dtype, 3).narrow(1, 2, l.width());
      auto y = rope(x, table, positions, l, pairs);
      EXPECT_TRUE(y.is_contiguous());
      auto xd = x.to(at::kDouble).contiguous(), yd = y.to(at::kDouble);
      const double tolerance = dtype == at::kBFloat16 ? 0.005 : 1e-6;
      const int64_t turned = l.heads + l.kv_heads;
      for (int64_t i = 0; i < n; ++i) {
        const float* row =
            table.const_data_ptr<float>() + positions.const_data_ptr<int32_t>()[i] * l.head_dim;
        for (int64_t h = 0; h < turned; ++h) {
          for (int64_t j = 0; j < half; ++j) {
            const bool inter = pairs == RopePairs::kInterleaved;
            const int64_t a = h * l.head_dim + (inter ? 2 * j : j);
            const int64_t b = h * l.head_dim + (inter ? 2 * j + 1 : j + half);
            const double c = row[j], s = row[half + j], p = at2(xd, i, a), q = at2(xd, i, b);
            ASSERT_NEAR(at2(yd, i, a), p * c - q * s, tolerance * (1 + std::abs(p) + std::abs(q)));
            ASSERT_NEAR(at2(yd, i, b), p * s + q * c, tolerance * (1 + std::abs(p) + std::abs(q)));
          }
        }
      }
      const int64_t v = l.kv_heads * l.head_dim;
      EXPECT_TRUE(
          testing::equal_bits(y.narrow(1, l.width() - v, v), x.narrow(1, l.width() - v, v)));
      auto plain = plain::rope(x, table, positions, l.heads, l.kv_heads, l.head_dim,
                               pairs == RopePairs::kInterleaved);
      EXPECT_LT(relative_difference(y, plain), dtype == at::kBFloat16 ? 0.005 : 1e-6);
      auto back = plain::rope_backward(x, table, positions, l.heads, l.kv_heads, l.head_dim,
                                       pairs == RopePairs::kInterleaved);
      auto leaf = random({n, l.width()}, dtype, 4).requires_grad_();
      rope(leaf, table, positions.to(at::kLong), l, pairs).backward(x);
      EXPECT_LT(relative_difference(leaf.grad(), back), dtype == at::kBFloat16 ? 0.005 : 1e-6);
    }
  }
}

TEST(Rope, GradientIsRightInDouble) {
  const HeadLayout l{4, 2, 6};
  auto table = rope_table(6, 8, 20.0);
  auto positions = testing::positions_of({3, 1, 2});
  for (auto pairs : {RopePairs::kInterleaved, RopePairs::kHalves}) {
    auto f = [&](const Tensors& t) { return Tensors{rope(t[0], table, positions, l, pairs)}; };
    EXPECT_LT(testing::gradcheck(f, {random({6, l.width()}, at::kDouble, 1)}), 1e-7);
  }
}

TEST(Rope, SavesTableAndPositionsOnly) {
  const HeadLayout l{2, 1, 4};
  auto table = rope_table(4, 8, 20.0), positions = testing::positions_of({3});
  auto x = random({3, l.width()}, at::kBFloat16, 1).requires_grad_();
  auto saved = testing::saved_by([&] { return rope(x, table, positions, l, RopePairs::kHalves); });
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].data_ptr(), table.data_ptr());
  EXPECT_EQ(saved[1].data_ptr(), positions.data_ptr());
}

TEST(Rope, RefusesWhatDoesNotFit) {
  const HeadLayout l{2, 1, 4};
  auto table = rope_table(4, 3, 20.0), positions = testing::positions_of({4});
  auto x = random({4, l.width()}, at::kFloat, 1);
  try {
    rope(x, table, positions, l, RopePairs::kHalves);
    FAIL() << "position 3 is beyond the table";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("positions[3] is 3: must be in 0 .. 2"));
  }
  auto longer = rope_table(4, 9, 20.0);
  EXPECT_THROW(rope(x, longer, positions.neg(), l, RopePairs::kHalves), Error);
  EXPECT_THROW(rope(x, longer, positions.narrow(0, 0, 3), l, RopePairs::kHalves), Error);
  EXPECT_THROW(rope(x, rope_table(6, 9, 20.0), positions, l, RopePairs::kHalves), Error);
  EXPECT_THROW(rope(x, longer, positions, HeadLayout{3, 2, 4}, RopePairs::kHalves), Error);
  EXPECT_THROW(rope(x, longer, positions, HeadLayout{4, 2, 4}, RopePairs::kHalves), Error);
}

TEST(Rope, MetaGivesTheSameShape) {
  const HeadLayout l{2, 1, 4};
  auto x = random({3, l.width()}, at::kBFloat16, 1).to(at::kMeta).requires_grad_();
  auto y = rope(x, rope_table(4, 8, 20.0).to(at::kMeta), testing::positions_of({3}).to(at::kMeta),
                l, RopePairs::kHalves);
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(y.sizes(), x.sizes());
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

}  // namespace
}  // namespace plimsoll::ops
