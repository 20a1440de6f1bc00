#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/silu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/embedding.h"
#include "plimsoll/ops/linear.h"
#include "plimsoll/ops/plain.h"
#include "plimsoll/ops/swiglu.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::equal_bits;
using testing::gradcheck;
using testing::gradients;
using testing::random;
using testing::relative_difference;
using Tensors = std::vector<at::Tensor>;

TEST(Linear, GradientIsRightInDouble) {
  auto f = [](const Tensors& t) { return Tensors{ops::linear(t[0], t[1])}; };
  EXPECT_LT(gradcheck(f, {random({1, 1}, at::kDouble, 1), random({1, 1}, at::kDouble, 2)}), 1e-7);
  EXPECT_LT(gradcheck(f, {random({3, 5}, at::kDouble, 1), random({7, 5}, at::kDouble, 2)}), 1e-7);
}

TEST(Linear, ComputesWithTheCopyAndGivesTheMasterItsGradient) {
  auto x = random({9, 33}, at::kBFloat16, 1), w = random({17, 33}, at::kFloat, 2);
  auto copy = w.to(at::kBFloat16);
  auto with = [&](const Tensors& t) { return Tensors{ops::linear(t[0], t[1], copy)}; };
  auto without = [](const Tensors& t) { return Tensors{ops::linear(t[0], t[1])}; };
  EXPECT_TRUE(equal_bits(with({x, w})[0], at::mm(x, copy.t())));
  EXPECT_TRUE(equal_bits(with({x, w})[0], without({x, w})[0]));
  auto a = gradients(with, {x, w}), b = gradients(without, {x, w});
  EXPECT_EQ(a[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(a[1].scalar_type(), at::kFloat);
  EXPECT_TRUE(equal_bits(a[0], b[0]));
  EXPECT_TRUE(equal_bits(a[1], b[1]));
  // Another copy: the arithmetic follows it.
  EXPECT_TRUE(equal_bits(ops::linear(x, w, copy * 2), at::mm(x, (copy * 2).t())));
}

TEST(Linear, AnUndefinedCopyIsNone) {
  at::Tensor x = at::randn({3, 4}), w = at::randn({5, 4});
  EXPECT_TRUE(at::equal(ops::linear(x, w, at::Tensor()), ops::linear(x, w)));
  at::Tensor ids = at::tensor({4, 0}, at::TensorOptions().dtype(at::kInt));
  EXPECT_TRUE(at::equal(ops::embedding(ids, w, at::Tensor()), ops::embedding(ids, w)));
}

TEST(Linear, AccumulatesInTheGradientDtype) {
  auto x = random({4, 8}, at::kBFloat16, 1), w = random({3, 8}, at::kFloat, 2).requires_grad_();
  ops::linear(x, w, w.detach().to(at::kBFloat16)).sum().backward();
  auto once = w.grad().clone();
  ops::linear(x, w, w.detach().to(at::kBFloat16)).sum().backward();
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  EXPECT_TRUE(equal_bits(w.grad(), once * 2));
  auto half = random({3, 8}, at::kFloat, 2).requires_grad_();
  half.set_grad_dtype(at::kBFloat16);
  ops::linear(x, half).sum().backward();
  EXPECT_EQ(half.grad().scalar_type(), at::kBFloat16);
}

TEST(Linear, SavesOnlyWhatTheGradientsNeed) {
  auto x = random({4, 8}, at::kFloat, 1), w = random({3, 8}, at::kFloat, 2);
  auto copy = w.clone();
  auto run = [&](bool dx, bool dw) {
    auto a = x.detach().requires_grad_(dx), b = w.detach().requires_grad_(dw);
    std::vector<const void*> places;
    for (const auto& t : testing::saved_by([&] { return ops::linear(a, b, copy); })) {
      places.push_back(t.const_data_ptr());
    }
    return places;
  };
  using Places = std::vector<const void*>;
  EXPECT_EQ(run(true, true), (Places{x.data_ptr(), copy.data_ptr()}));
  EXPECT_EQ(run(false, true), (Places{x.data_ptr()}));
  EXPECT_EQ(run(true, false), (Places{copy.data_ptr()}));
  EXPECT_EQ(run(false, false), Places{});
}

TEST(Linear, RefusesWhatDoesNotFit) {
  auto x = random({4, 8}, at::kFloat, 1), w = random({3, 8}, at::kFloat, 2);
  EXPECT_THROW(ops::linear(x, random({3, 7}, at::kFloat, 2)), Error);
  EXPECT_THROW(ops::linear(x, w, w.to(at::kBFloat16)), Error);
  EXPECT_THROW(ops::linear(x, w, random({3, 7}, at::kFloat, 2)), Error);
  EXPECT_THROW(ops::linear(x.to(at::kLong), w), Error);
  EXPECT_THROW(ops::linear(x[0], w), Error);
}

TEST(Linear, MetaGivesTheSameShapes) {
  auto x = random({4, 8}, at::kBFloat16, 1).to(at::kMeta).requires_grad_();
  auto w = random({3, 8}, at::kFloat, 2).to(at::kMeta).requires_grad_();
  auto y = ops::linear(x, w);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(w.grad().sizes(), w.sizes());
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

TEST(Embedding, GradientIsRightInDouble) {
  auto ids = testing::random_ids(7, 4, 1);
  auto f = [&](const Tensors& t) { return Tensors{ops::embedding(ids, t[0])}; };
  EXPECT_LT(gradcheck(f, {random({5, 3}, at::kDouble, 1)}), 1e-7);
}

TEST(Embedding, SumsRowsInFp32WhateverTheIncomingDtype) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t d : {1, 31, 64, 100}) {
      auto ids = testing::random_ids(333, 7, 3).to(at::kInt);
      auto w = random({9, d}, at::kFloat, 2).requires_grad_();
      auto copy = w.detach().to(dtype);
      auto y = ops::embedding(ids, w, copy);
      EXPECT_TRUE(equal_bits(y, plain::embedding(ids, w, copy)));
      auto g = random({333, d}, dtype, 4);
      y.backward(g);
      EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
      EXPECT_TRUE(equal_bits(w.grad(), plain::embedding_backward(g, ids, 9, at::kFloat)));
    }
  }
}

TEST(Embedding, SavesIdsOnly) {
  auto ids = testing::random_ids(5, 4, 1);
  auto w = random({4, 3}, at::kFloat, 1).requires_grad_();
  auto saved = testing::saved_by([&] { return ops::embedding(ids, w); });
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].data_ptr(), ids.data_ptr());
}

TEST(Embedding, NamesTheIdThatIsOutside) {
  auto w = random({4, 3}, at::kFloat, 1);
  for (int64_t bad : {4, -1}) {
    auto ids = testing::random_ids(5, 4, 1);
    ids.mutable_data_ptr<int64_t>()[2] = bad;
    try {
      ops::embedding(ids, w);
      FAIL();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("ids[2] is " + std::to_string(bad)));
    }
  }
  EXPECT_THROW(ops::embedding(w, w), Error);
  EXPECT_THROW(ops::embedding(testing::random_ids(5, 4, 1), w, w.narrow(0, 0, 3)), Error);
}

TEST(Embedding, MetaGivesTheSameShapes) {
  auto w = random({4, 3}, at::kFloat, 1).to(at::kMeta).requires_grad_();
  auto y = ops::embedding(testing::random_ids(5, 4, 1).to(at::kMeta), w);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{5, 3}));
  y.sum().backward();
  EXPECT_EQ(w.grad().sizes(), w.sizes());
}

at::Tensor reference_swiglu(const at::Tensor& x) {
  const int64_t f = x.size(1) / 2;
  return at::silu(x.narrow(1, 0, f)) * x.narrow(1, f, f);
}

TEST(Swiglu, GradientIsRightInDouble) {
  auto f = [](const Tensors& t) { return Tensors{swiglu(t[0])}; };
  EXPECT_LT(gradcheck(f, {random({1, 2}, at::kDouble, 1)}), 1e-7);
  EXPECT_LT(gradcheck(f, {random({4, 14}, at::kDouble, 1) * 4}), 1e-7);
}

TEST(Swiglu, MatchesTorch) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t f : {1, 15, 64, 771}) {
      for (int64_t n : {1, 21}) {
        auto x = (random({n, 2 * f + 3}, dtype, 5) * 3).narrow(1, 1, 2 * f);
        auto ours = [](const Tensors& t) { return Tensors{swiglu(t[0])}; };
        auto theirs = [](const Tensors& t) { return Tensors{reference_swiglu(t[0])}; };
        const double tolerance = dtype == at::kBFloat16 ? 0.004 : 1e-6;
        auto exact = x.to(at::kDouble);
        EXPECT_LT(relative_difference(ours({x})[0], theirs({exact})[0]), tolerance);
        EXPECT_LT(relative_difference(gradients(ours, {x})[0], gradients(theirs, {exact})[0]),
                  tolerance);
      }
    }
  }
}

TEST(Swiglu, LargeGatesAndNotANumber) {
  auto x = random({1, 8}, at::kFloat, 1);
  float* p = x.mutable_data_ptr<float>();
  const float gates[] = {-200.0f, 200.0f, std::numeric_limits<float>::quiet_NaN(), -3e38f};
  for (int i = 0; i < 4; ++i) {
    p[i] = gates[i];
    p[4 + i] = 1.0f;
  }
  auto y = swiglu(x);
  const float* q = y.const_data_ptr<float>();
  EXPECT_NEAR(q[0], 0.0f, 1e-30f);
  EXPECT_EQ(q[1], 200.0f);
  EXPECT_TRUE(std::isnan(q[2]));
  EXPECT_EQ(q[3], 0.0f);
  auto g = plain::swiglu_backward(random({1, 4}, at::kFloat, 2), x);
  auto leaf = x.clone().requires_grad_();
  swiglu(leaf).backward(random({1, 4}, at::kFloat, 2));
  EXPECT_TRUE(std::isnan(leaf.grad().const_data_ptr<float>()[2]));
  EXPECT_LT(relative_difference(leaf.grad().narrow(1, 0, 2), g.narrow(1, 0, 2)), 1e-6);
}

TEST(Swiglu, SavesItsInputOnlyAndRefusesOddWidths) {
  auto x = random({3, 8}, at::kBFloat16, 1).requires_grad_();
  auto saved = testing::saved_by([&] { return swiglu(x); });
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].data_ptr(), x.data_ptr());
  EXPECT_THROW(swiglu(random({3, 7}, at::kFloat, 1)), Error);
  EXPECT_EQ(swiglu(x.detach().to(at::kMeta)).sizes(), (std::vector<int64_t>{3, 4}));
}

}  // namespace
}  // namespace plimsoll::ops
