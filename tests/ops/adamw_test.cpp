#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/adamw.h"
#include "plimsoll/ops/plain.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::equal_bits;
using testing::random;
using testing::relative_difference;
using Tensors = std::vector<at::Tensor>;

at::Tensor scalar(double x) {
  return at::full({}, x, at::kFloat);
}

struct Update {
  AdamWTensors t;
  AdamWScalars s;
};

Update make(at::ScalarType grads, at::ScalarType moments, std::optional<at::ScalarType> compute) {
  Update setup;
  uint64_t seed = 1;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{3, 5}, {1}, {4099}, {7, 0}, {40000}}) {
    setup.t.params.push_back(random(shape, at::kFloat, seed++));
    setup.t.grads.push_back(random(shape, grads, seed++));
    setup.t.exp_avg.push_back((random(shape, at::kFloat, seed++) * 0.1).to(moments));
    setup.t.exp_avg_sq.push_back((random(shape, at::kFloat, seed++).square() * 0.01).to(moments));
    if (compute) setup.t.compute.push_back(setup.t.params.back().to(*compute));
  }
  setup.s.lr = scalar(1e-2);
  setup.s.step = scalar(3);
  return setup;
}

Tensors clones(const Tensors& list) {
  Tensors out;
  for (const auto& t : list) out.push_back(t.clone());
  return out;
}

AdamWTensors copy_of(const AdamWTensors& t) {
  return {clones(t.params), clones(t.grads), clones(t.exp_avg), clones(t.exp_avg_sq),
          clones(t.compute)};
}

TEST(AdamW, EqualsTorchsFusedFormInFp32OverManySteps) {
  auto setup = make(at::kFloat, at::kFloat, at::kBFloat16);
  for (auto* list : {&setup.t.exp_avg, &setup.t.exp_avg_sq}) {
    for (auto& t : *list) t.zero_();
  }
  auto theirs = copy_of(setup.t);
  Tensors steps;
  for (size_t i = 0; i < theirs.params.size(); ++i) steps.push_back(scalar(0));
  for (int step = 1; step <= 10; ++step) {
    for (size_t i = 0; i < steps.size(); ++i) {
      setup.t.grads[i] = random(setup.t.grads[i].sizes(), at::kFloat, 1000u * i + step);
      theirs.grads[i] = setup.t.grads[i].clone();
      steps[i].fill_(step);
    }
    setup.s.step = scalar(step);
    adamw_(setup.t, setup.s);
    at::_fused_adamw_(theirs.params, theirs.grads, theirs.exp_avg, theirs.exp_avg_sq, {}, steps,
                      1e-2, 0.9, 0.95, 0.1, 1e-8, false, false);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_LT(relative_difference(setup.t.params[i], theirs.params[i]), 1e-6) << i;
    EXPECT_LT(relative_difference(setup.t.exp_avg[i], theirs.exp_avg[i]), 1e-6) << i;
    EXPECT_LT(relative_difference(setup.t.exp_avg_sq[i], theirs.exp_avg_sq[i]), 1e-6) << i;
    EXPECT_TRUE(equal_bits(setup.t.compute[i], setup.t.params[i].to(at::kBFloat16))) << i;
  }
}

TEST(AdamW, EveryMixOfDtypesEqualsThePlainForm) {
  for (auto grads : {at::kFloat, at::kBFloat16}) {
    for (auto moments : {at::kFloat, at::kBFloat16}) {
      for (auto compute : {std::optional<at::ScalarType>(), std::optional(at::kFloat),
                           std::optional(at::kBFloat16)}) {
        auto setup = make(grads, moments, compute);
        setup.s.grad_scale = scalar(0.37);
        setup.s.found_inf = scalar(0);
        auto plain = copy_of(setup.t);
        auto before = copy_of(setup.t);
        adamw_(setup.t, setup.s);
        plain::adamw_(plain.params, plain.grads, plain.exp_avg, plain.exp_avg_sq, plain.compute,
                      setup.s.lr, setup.s.step, 0.9, 0.95, 1e-8, 0.1, setup.s.grad_scale,
                      setup.s.found_inf);
        // A moment may fall on the other side of a rounding to bf16.
        const double step = moments == at::kBFloat16 ? 0.008 : 1e-6;
        for (size_t i = 0; i < plain.params.size(); ++i) {
          EXPECT_LT(relative_difference(setup.t.params[i], plain.params[i]), 1e-6);
          EXPECT_LT(relative_difference(setup.t.exp_avg[i], plain.exp_avg[i]), step);
          EXPECT_LT(relative_difference(setup.t.exp_avg_sq[i], plain.exp_avg_sq[i]), step);
          EXPECT_TRUE(equal_bits(setup.t.grads[i], before.grads[i]));
          if (before.params[i].numel() > 0) {
            EXPECT_FALSE(equal_bits(setup.t.params[i], before.params[i]));
          }
          if (compute) {
            EXPECT_TRUE(equal_bits(setup.t.compute[i], setup.t.params[i].to(*compute)));
          }
        }
      }
    }
  }
}

TEST(AdamW, FoundInfLeavesEveryBit) {
  for (bool plain_form : {false, true}) {
    auto setup = make(at::kBFloat16, at::kBFloat16, at::kBFloat16);
    setup.t.grads[0].fill_(std::nan(""));
    setup.t.compute[1].fill_(5);  // not the rounding of its parameter: must stay nonetheless
    setup.s.found_inf = scalar(1);
    auto before = copy_of(setup.t);
    auto& t = setup.t;
    if (plain_form) {
      plain::adamw_(t.params, t.grads, t.exp_avg, t.exp_avg_sq, t.compute, setup.s.lr, setup.s.step,
                    0.9, 0.95, 1e-8, 0.1, {}, setup.s.found_inf);
    } else {
      adamw_(t, setup.s);
    }
    for (size_t i = 0; i < t.params.size(); ++i) {
      EXPECT_TRUE(equal_bits(t.params[i], before.params[i]));
      EXPECT_TRUE(equal_bits(t.exp_avg[i], before.exp_avg[i]));
      EXPECT_TRUE(equal_bits(t.exp_avg_sq[i], before.exp_avg_sq[i]));
      EXPECT_TRUE(equal_bits(t.compute[i], before.compute[i]));
    }
  }
}

TEST(AdamW, WorksOnLeavesAndTellsTheGraphsThatSavedThem) {
  auto p = random({4}, at::kFloat, 1).requires_grad_();
  auto y = (p * p).sum();
  AdamWTensors t{{p}, {random({4}, at::kFloat, 2)}, {at::zeros({4})}, {at::zeros({4})}, {}};
  AdamWScalars s;
  s.lr = scalar(0.1);
  s.step = scalar(1);
  {
    at::NoGradGuard no_grad;
    adamw_(t, s);
  }
  EXPECT_TRUE(p.requires_grad());
  EXPECT_TRUE(p.is_leaf());
  EXPECT_ANY_THROW(y.backward());
}

TEST(AdamW, RefusesWhatDoesNotFit) {
  auto expect_error = [](auto change) {
    auto setup = make(at::kFloat, at::kFloat, at::kBFloat16);
    change(setup);
    EXPECT_THROW(adamw_(setup.t, setup.s), Error);
  };
  expect_error([](Update& x) { x.t.grads.pop_back(); });
  expect_error([](Update& x) { x.t.grads[1] = at::Tensor(); });
  expect_error([](Update& x) { x.t.grads[0] = random({5, 3}, at::kFloat, 1); });
  expect_error([](Update& x) { x.t.grads[0] = random({5, 3}, at::kFloat, 1).t(); });
  expect_error([](Update& x) { x.t.params[0] = x.t.params[0].to(at::kBFloat16); });
  expect_error([](Update& x) { x.t.compute.pop_back(); });
  expect_error([](Update& x) { x.s.lr = x.s.lr.to(at::kDouble); });
  expect_error([](Update& x) { x.s.step = at::zeros({2}); });
}

TEST(GradNorm, IsTheTotalNormInEveryDtypeAndDoesNotOverflow) {
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    Tensors grads{random({3, 5}, dtype, 1), random({200000}, dtype, 2), random({0}, dtype, 3),
                  random({8, 9}, dtype, 4).t()};
    double sum = 0;
    for (const auto& g : grads) sum += g.to(at::kDouble).square().sum().item<double>();
    auto norm = grad_norm(grads);
    EXPECT_EQ(norm.scalar_type(), at::kFloat);
    EXPECT_NEAR(norm.item<double>(), std::sqrt(sum), 1e-6 * std::sqrt(sum));
    EXPECT_NEAR(plain::grad_norm(grads).item<double>(), std::sqrt(sum), 1e-6 * std::sqrt(sum));
    EXPECT_NEAR(grad_norm({grads[0] * 1e30}).item<double>() / 1e30,
                grad_norm({grads[0]}).item<double>(), 1e-2);
  }
}

TEST(GradNorm, BitsDoNotDependOnTheThreads) {
  Tensors grads{random({300001}, at::kFloat, 1), random({1000}, at::kBFloat16, 2)};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  auto one = grad_norm(grads);
  at::set_num_threads(3);
  auto three = grad_norm(grads);
  at::set_num_threads(threads);
  EXPECT_TRUE(equal_bits(one, three));
}

TEST(GradNorm, NonFiniteShows) {
  for (double bad : {std::numeric_limits<double>::infinity(),
                     -std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (auto dtype : {at::kFloat, at::kBFloat16}) {
      auto g = random({1000}, at::kDouble, 1);
      g.mutable_data_ptr<double>()[777] = bad;
      EXPECT_FALSE(std::isfinite(grad_norm({g.to(dtype)}).item<double>()));
      EXPECT_FALSE(std::isfinite(plain::grad_norm(Tensors{g.to(dtype)}).item<double>()));
    }
  }
  EXPECT_THROW(grad_norm({}), Error);
  EXPECT_THROW(grad_norm({at::Tensor()}), Error);
}

}  // namespace
}  // namespace plimsoll::ops
