#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rsqrt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/plain.h"
#include "plimsoll/ops/rms_norm.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::gradcheck;
using testing::gradients;
using testing::random;
using testing::relative_difference;
using Tensors = std::vector<at::Tensor>;

/// What rounding to the compute dtype may cost: two roundings of bf16, a few of fp32 over a sum.
double tolerance(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? 0.008 : 2e-6;
}

at::Tensor reference_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  return at::rms_norm(x, {x.size(-1)}, w, eps);
}

TEST(RmsNorm, GradientIsRightInDouble) {
  auto norm = [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1], 1e-5)}; };
  EXPECT_LT(gradcheck(norm, {random({1, 1}, at::kDouble, 1), random({1}, at::kDouble, 2)}), 1e-7);
  EXPECT_LT(gradcheck(norm, {random({5, 19}, at::kDouble, 1), random({19}, at::kDouble, 2)}), 1e-7);
  EXPECT_LT(gradcheck(norm, {random({3, 2, 7}, at::kDouble, 1), random({7}, at::kDouble, 2)}),
            1e-7);
  auto added = [](const Tensors& t) {
    auto [sum, y] = add_rms_norm(t[0], t[1], t[2], 1e-5);
    return Tensors{sum, y};
  };
  EXPECT_LT(gradcheck(added, {random({4, 9}, at::kDouble, 1), random({4, 9}, at::kDouble, 2),
                              random({9}, at::kDouble, 3)}),
            1e-7);
}

class RmsNormIn : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, RmsNormIn, ::testing::Values(at::kFloat, at::kBFloat16));

TEST_P(RmsNormIn, MatchesTorchOnShapesAndStrides) {
  const auto dtype = GetParam();
  for (int64_t d : {2, 16, 37, 256, 1000}) {
    auto w = random({d}, at::kFloat, 3);
    for (int64_t n : {1, 3, 130}) {
      // Rows of a wider buffer: strided, like the heads of a fused qkv.
      auto x = random({n, 2 * d + 5}, dtype, 7).narrow(1, 3, d);
      auto ours = [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1], 1e-5)}; };
      auto theirs = [](const Tensors& t) { return Tensors{reference_norm(t[0], t[1], 1e-5)}; };
      EXPECT_LT(
          relative_difference(ours({x, w})[0], theirs({x.to(at::kDouble), w.to(at::kDouble)})[0]),
          tolerance(dtype));
      EXPECT_TRUE(ours({x, w})[0].is_contiguous());
      auto g = gradients(ours, {x, w});
      auto expected = gradients(theirs, {x.to(at::kDouble), w.to(at::kDouble)});
      EXPECT_EQ(g[0].scalar_type(), dtype);
      EXPECT_EQ(g[1].scalar_type(), at::kFloat);
      EXPECT_LT(relative_difference(g[0], expected[0]), tolerance(dtype)) << n << "x" << d;
      // The incoming gradient itself was rounded to bf16.
      EXPECT_LT(relative_difference(g[1], expected[1]), tolerance(dtype)) << n << "x" << d;
    }
  }
}

TEST_P(RmsNormIn, AddMatchesThePlainForm) {
  const auto dtype = GetParam();
  for (int64_t d : {1, 24, 256, 311}) {
    auto x = random({33, d}, dtype, 1), r = random({33, d}, dtype, 2);
    auto w = random({d}, at::kFloat, 3);
    auto [sum, y] = add_rms_norm(x, r, w, 1e-5);
    auto [psum, py, prstd] = plain::add_rms_norm(x, r, w, 1e-5);
    EXPECT_TRUE(testing::equal_bits(sum, psum));
    EXPECT_LT(relative_difference(y, py), tolerance(dtype));
    auto g = random({33, d}, dtype, 4), gs = random({33, d}, dtype, 5);
    auto [dx, dw] = plain::rms_norm_backward(g, psum, w, prstd, gs, at::kFloat);
    auto xl = x.detach().requires_grad_(), rl = r.detach().requires_grad_();
    auto wl = w.detach().requires_grad_();
    auto [s2, y2] = add_rms_norm(xl, rl, wl, 1e-5);
    ((s2 * gs).sum(at::kDouble) + (y2 * g).sum(at::kDouble)).backward();
    EXPECT_LT(relative_difference(xl.grad(), dx), tolerance(dtype));
    EXPECT_TRUE(testing::equal_bits(xl.grad(), rl.grad()));
    EXPECT_LT(relative_difference(wl.grad(), dw), tolerance(at::kFloat) * 10);
  }
}

TEST(RmsNorm, OnlyOneOfTheTwoOutputsUsed) {
  auto x = random({4, 8}, at::kDouble, 1), r = random({4, 8}, at::kDouble, 2);
  auto w = random({8}, at::kDouble, 3);
  for (bool first : {true, false}) {
    auto one = [first](const Tensors& t) {
      auto [sum, y] = add_rms_norm(t[0], t[1], t[2], 1e-5);
      return Tensors{first ? sum + t[2] * 0 : y};
    };
    EXPECT_LT(gradcheck(one, {x, r, w}), 1e-7);
  }
}

TEST(RmsNorm, SavesInputWeightAndOneNumberARow) {
  auto x = random({6, 32}, at::kBFloat16, 1).requires_grad_();
  auto w = random({32}, at::kFloat, 2).requires_grad_();
  auto saved = testing::saved_by([&] { return rms_norm(x, w, 1e-5); });
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved[0].data_ptr(), x.data_ptr());
  EXPECT_EQ(saved[1].data_ptr(), w.data_ptr());
  EXPECT_EQ(saved[2].nbytes(), 6 * 4u);
  saved = testing::saved_by([&] { return add_rms_norm(x, x, w, 1e-5).second; });
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved[0].nbytes(), x.nbytes());
  EXPECT_EQ(saved[2].nbytes(), 6 * 4u);
}

TEST(RmsNorm, GradientArrivesInTheGradientDtype) {
  auto x = random({6, 32}, at::kBFloat16, 1);
  auto w = random({32}, at::kFloat, 2).requires_grad_();
  w.set_grad_dtype(at::kBFloat16);
  rms_norm(x, w, 1e-5).sum().backward();
  EXPECT_EQ(w.grad().scalar_type(), at::kBFloat16);
}

TEST(RmsNorm, SecondDerivativeIsRefused) {
  auto x = random({2, 4}, at::kDouble, 1).requires_grad_();
  auto w = random({4}, at::kDouble, 2);
  rms_norm(x, w, 1e-5).sum().backward({}, true, /*create_graph=*/true);
  try {
    x.grad().sum().backward();
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("rms_norm: its gradient cannot be differentiated"));
  }
}

TEST(RmsNorm, RefusesWhatDoesNotFit) {
  auto x = random({2, 4}, at::kFloat, 1);
  EXPECT_THROW(rms_norm(x, random({5}, at::kFloat, 2), 1e-5), Error);
  EXPECT_THROW(rms_norm(x.to(at::kHalf), random({4}, at::kFloat, 2), 1e-5), Error);
  EXPECT_THROW(add_rms_norm(x, random({2, 5}, at::kFloat, 2), random({4}, at::kFloat, 2), 1e-5),
               Error);
  EXPECT_THROW(rms_norm(x.to(at::kMeta), random({5}, at::kFloat, 2).to(at::kMeta), 1e-5), Error);
}

TEST(RmsNorm, MetaGivesTheSameShapes) {
  auto x = random({2, 3, 4}, at::kBFloat16, 1), w = random({4}, at::kFloat, 2);
  auto run = [](at::Tensor a, at::Tensor b) {
    a.requires_grad_();
    b.requires_grad_();
    auto [sum, y] = add_rms_norm(a, a, b, 1e-5);
    (sum + y).sum().backward();
    return Tensors{sum, y, a.grad(), b.grad()};
  };
  auto xm = x.to(at::kMeta), wm = w.to(at::kMeta);
  auto real = run(x, w), meta = run(xm, wm);
  for (size_t i = 0; i < real.size(); ++i) {
    EXPECT_EQ(real[i].sizes(), meta[i].sizes());
    EXPECT_EQ(real[i].strides(), meta[i].strides());
    EXPECT_EQ(real[i].dtype(), meta[i].dtype());
  }
}

TEST(QkNorm, GradientIsRightInDouble) {
  for (HeadLayout layout : {HeadLayout{1, 1, 2}, HeadLayout{4, 2, 3}}) {
    auto f = [&](const Tensors& t) { return Tensors{qk_norm(t[0], t[1], t[2], layout, 1e-6)}; };
    EXPECT_LT(gradcheck(f, {random({3, layout.width()}, at::kDouble, 1),
                            random({layout.head_dim}, at::kDouble, 2),
                            random({layout.head_dim}, at::kDouble, 3)}),
              1e-7);
  }
}

TEST_P(RmsNormIn, QkNormIsRmsNormOfEachHead) {
  const auto dtype = GetParam();
  for (HeadLayout l :
       {HeadLayout{1, 1, 16}, HeadLayout{4, 2, 64}, HeadLayout{3, 1, 128}, HeadLayout{2, 2, 5}}) {
    auto by_parts = [&](const Tensors& t) {
      auto x = t[0];
      const int64_t n = x.size(0), q = l.heads * l.head_dim, k = l.kv_heads * l.head_dim;
      auto yq = rms_norm(x.narrow(1, 0, q).view({n, l.heads, l.head_dim}), t[1], 1e-6);
      auto yk = rms_norm(x.narrow(1, q, k).view({n, l.kv_heads, l.head_dim}), t[2], 1e-6);
      return Tensors{at::cat({yq.view({n, q}), yk.view({n, k}), x.narrow(1, q + k, k)}, 1)};
    };
    auto fused = [&](const Tensors& t) { return Tensors{qk_norm(t[0], t[1], t[2], l, 1e-6)}; };
    for (int64_t n : {1, 37}) {
      Tensors in{random({n, l.width() + 3}, dtype, 1).narrow(1, 1, l.width()),
                 random({l.head_dim}, at::kFloat, 2), random({l.head_dim}, at::kFloat, 3)};
      EXPECT_LT(relative_difference(fused(in)[0], by_parts(in)[0]), tolerance(dtype) / 2);
      auto a = gradients(fused, in), b = gradients(by_parts, in);
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_LT(relative_difference(a[i], b[i]), i == 0 ? tolerance(dtype) : 2e-6) << i;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
