#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/linear_cross_entropy.h"
#include "plimsoll/ops/plain.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::equal_bits;
using testing::gradients;
using testing::random;
using testing::relative_difference;
using Tensors = std::vector<at::Tensor>;

/// Every third target ignored when `ignore`.
at::Tensor targets_for(int64_t n, int64_t v, bool ignore) {
  auto t = testing::random_ids(n, v, 5);
  for (int64_t i = 0; ignore && i < n; i += 3) t.mutable_data_ptr<int64_t>()[i] = kIgnoredTarget;
  return t;
}

at::Tensor reference(const at::Tensor& h, const at::Tensor& w, const at::Tensor& targets) {
  return at::cross_entropy_loss(at::mm(h, w.t()), targets, {}, at::Reduction::Sum, kIgnoredTarget);
}

TEST(LinearCrossEntropy, GradientIsRightInDouble) {
  for (int64_t chunk : {0, 1, 2, 7}) {
    auto targets = targets_for(5, 6, true);
    auto f = [&](const Tensors& t) {
      return Tensors{linear_cross_entropy(t[0], t[1], {}, targets, chunk)};
    };
    EXPECT_LT(
        testing::gradcheck(f, {random({5, 4}, at::kDouble, 1), random({6, 4}, at::kDouble, 2)}),
        1e-7);
  }
}

TEST(LinearCrossEntropy, MatchesTorchAndThePlainForm) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int64_t v : {1, 2, 61, 2048}) {
      for (int64_t n : {1, 50}) {
        for (int64_t chunk : {0, 7, 50, 1000}) {
          auto targets = targets_for(n, v, n > 1);
          auto h = random({n, 24}, dtype, 1), w = random({v, 24}, dtype, 2) * 0.3;
          auto ours = [&](const Tensors& t) {
            return Tensors{linear_cross_entropy(t[0], t[1], {}, targets.to(at::kInt), chunk)};
          };
          auto theirs = [&](const Tensors& t) { return Tensors{reference(t[0], t[1], targets)}; };
          Tensors exact{h.to(at::kDouble), w.to(at::kDouble)};
          // bf16: logits are rounded to 8 bits (up to about 8 here: 0.03 each).
          const double tolerance = dtype == at::kBFloat16 ? 0.02 : 2e-5;
          auto loss = ours({h, w})[0];
          EXPECT_EQ(loss.scalar_type(), at::kFloat);
          EXPECT_EQ(loss.dim(), 0);
          EXPECT_NEAR(loss.item<double>(), theirs(exact)[0].item<double>(),
                      tolerance * static_cast<double>(n));
          if (v == 1) continue;  // all gradients are nothing
          auto a = gradients(ours, {h, w}), b = gradients(theirs, exact);
          EXPECT_LT(relative_difference(a[0], b[0]), tolerance) << v << " " << n << " " << chunk;
          EXPECT_LT(relative_difference(a[1], b[1]), tolerance) << v << " " << n << " " << chunk;
          auto [pl, pdh, pdw] =
              plain::linear_cross_entropy_forward(h, w, {}, targets, chunk, true, at::kFloat);
          EXPECT_NEAR(loss.item<double>(), pl.item<double>(),
                      1e-5 * (1 + std::abs(pl.item<double>())));
        }
      }
    }
  }
}

TEST(LinearCrossEntropy, ScalesByTheIncomingGradientAndRunsBackwardOnce) {
  auto targets = targets_for(10, 12, true);
  auto h = random({10, 4}, at::kFloat, 1).requires_grad_();
  auto w = random({12, 4}, at::kFloat, 2).requires_grad_();
  auto loss = linear_cross_entropy(h, w, {}, targets, 3);
  (loss * 0.25).backward({}, /*retain_graph=*/true);
  auto h2 = h.detach().requires_grad_(), w2 = w.detach().requires_grad_();
  (reference(h2, w2, targets) * 0.25).backward();
  EXPECT_LT(relative_difference(h.grad(), h2.grad()), 1e-5);
  EXPECT_LT(relative_difference(w.grad(), w2.grad()), 1e-5);
  auto kept = w.grad().clone();
  EXPECT_THROW(loss.backward(), Error);
  EXPECT_TRUE(equal_bits(kept, w.grad()));
}

TEST(LinearCrossEntropy, AccumulatesOverMicroBatches) {
  auto targets = targets_for(12, 9, false);
  auto h = random({12, 4}, at::kFloat, 1), w = random({9, 4}, at::kFloat, 2).requires_grad_();
  for (int64_t from : {0, 6}) {
    linear_cross_entropy(h.narrow(0, from, 6), w, {}, targets.narrow(0, from, 6)).backward();
  }
  auto whole = w.detach().requires_grad_();
  linear_cross_entropy(h, whole, {}, targets).backward();
  EXPECT_LT(relative_difference(w.grad(), whole.grad()), 1e-5);
}

TEST(LinearCrossEntropy, ComputesWithTheCopyAndObeysTheGradientDtype) {
  auto targets = targets_for(6, 9, false);
  auto h = random({6, 4}, at::kBFloat16, 1);
  auto w = random({9, 4}, at::kFloat, 2).requires_grad_();
  auto copy = w.detach().to(at::kBFloat16);
  EXPECT_TRUE(equal_bits(linear_cross_entropy(h, w, copy, targets).detach(),
                         linear_cross_entropy(h, w, {}, targets).detach()));
  linear_cross_entropy(h, w, copy, targets).backward();
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  auto half = w.detach().clone().requires_grad_();
  half.set_grad_dtype(at::kBFloat16);
  linear_cross_entropy(h, half, copy, targets).backward();
  EXPECT_EQ(half.grad().scalar_type(), at::kBFloat16);
  EXPECT_TRUE(equal_bits(half.grad(), w.grad().to(at::kBFloat16)));
}

TEST(LinearCrossEntropy, SavesTheTwoGradientsOnly) {
  auto targets = targets_for(6, 9, false);
  auto h = random({6, 4}, at::kBFloat16, 1).requires_grad_();
  auto w = random({9, 4}, at::kFloat, 2).requires_grad_();
  auto saved = testing::saved_by([&] { return linear_cross_entropy(h, w, {}, targets); });
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].nbytes(), h.nbytes());
  EXPECT_EQ(saved[1].nbytes(), w.nbytes());
  saved = testing::saved_by([&] { return linear_cross_entropy(h, w.detach(), {}, targets); });
  ASSERT_EQ(saved.size(), 1u);
}

/// Counts what is asked of the CPU allocator while it lives.
struct Counting final : c10::Allocator {
  explicit Counting() : before(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 255); }
  ~Counting() override { c10::SetCPUAllocator(before, 255); }
  c10::DataPtr allocate(size_t n) override {
    std::lock_guard lock(mutex);
    largest = std::max(largest, n);
    return before->allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override { return before->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t n) const override {
    default_copy_data(to, from, n);
  }
  c10::Allocator* before;
  std::mutex mutex;
  size_t largest = 0;
};

TEST(LinearCrossEntropy, LogitsOfTheWholeRowNeverExist) {
  const int64_t n = 512, v = 3001, chunk = 32;
  auto targets = targets_for(n, v, true);
  auto h = random({n, 8}, at::kFloat, 1).requires_grad_();
  auto w = random({v, 8}, at::kFloat, 2).requires_grad_();
  Counting counting;
  linear_cross_entropy(h, w, {}, targets, chunk).backward();
  EXPECT_EQ(counting.largest, static_cast<size_t>(chunk * v) * sizeof(float));
}

TEST(LinearCrossEntropy, LargeVocabulary) {
  const int64_t v = 151936;
  auto targets = targets_for(3, v, false);
  auto h = random({3, 8}, at::kFloat, 1), w = random({v, 8}, at::kFloat, 2);
  EXPECT_NEAR(linear_cross_entropy(h, w, {}, targets).item<double>(),
              reference(h.to(at::kDouble), w.to(at::kDouble), targets).item<double>(), 1e-3);
}

TEST(LinearCrossEntropy, AllIgnoredIsNothingAndNotANumberStays) {
  auto h = random({4, 4}, at::kFloat, 1).requires_grad_(), w = random({9, 4}, at::kFloat, 2);
  auto none = at::full({4}, kIgnoredTarget, at::kLong);
  auto loss = linear_cross_entropy(h, w, {}, none);
  EXPECT_EQ(loss.item<double>(), 0.0);
  loss.backward();
  EXPECT_EQ(h.grad().abs().sum().item<double>(), 0.0);
  auto bad = h.detach().clone();
  bad.mutable_data_ptr<float>()[5] = std::nanf("");
  EXPECT_TRUE(
      std::isnan(linear_cross_entropy(bad, w, {}, targets_for(4, 9, false)).item<double>()));
}

TEST(LinearCrossEntropy, NamesTheTargetThatIsOutside) {
  auto h = random({4, 4}, at::kFloat, 1), w = random({9, 4}, at::kFloat, 2);
  for (int64_t bad : {9, -1, -99}) {
    auto targets = targets_for(4, 9, false);
    targets.mutable_data_ptr<int64_t>()[3] = bad;
    try {
      linear_cross_entropy(h, w, {}, targets);
      FAIL();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("targets[3] is " + std::to_string(bad)));
    }
  }
  EXPECT_THROW(linear_cross_entropy(h, w, {}, targets_for(3, 9, false)), Error);
  EXPECT_THROW(linear_cross_entropy(h, w.narrow(1, 0, 3), {}, targets_for(4, 9, false)), Error);
  EXPECT_THROW(linear_cross_entropy(h, w, {}, targets_for(4, 9, false), -1), Error);
}

TEST(LinearCrossEntropy, MetaGivesTheSameShapes) {
  auto h = random({4, 4}, at::kBFloat16, 1).to(at::kMeta).requires_grad_();
  auto w = random({9, 4}, at::kFloat, 2).to(at::kMeta).requires_grad_();
  auto loss = linear_cross_entropy(h, w, {}, targets_for(4, 9, false).to(at::kMeta));
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  EXPECT_EQ(h.grad().sizes(), h.sizes());
  EXPECT_EQ(w.grad().sizes(), w.sizes());
}

}  // namespace
}  // namespace plimsoll::ops
