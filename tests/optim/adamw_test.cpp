#include "plimsoll/optim/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <limits>

#include "plimsoll/base/error.h"

namespace plimsoll::optim {
namespace {

std::vector<model::Parameter> make_parameters(bool copies) {
  std::vector<model::Parameter> out(2);
  out[0].name = "a.weight";
  out[0].master = at::randn({5, 7}).set_requires_grad(true);
  out[1].name = "norm.weight";
  out[1].master = at::randn({7}).set_requires_grad(true);
  if (copies) out[0].compute = out[0].master.detach().to(at::kBFloat16);
  for (model::Parameter& p : out) p.master.mutable_grad() = at::randn(p.master.sizes());
  return out;
}

std::vector<model::Parameter*> pointers(std::vector<model::Parameter>& parameters) {
  std::vector<model::Parameter*> out;
  for (model::Parameter& p : parameters) out.push_back(&p);
  return out;
}

TEST(AdamW, EqualsTorchsFusedStepAfterClipping) {
  std::vector<model::Parameter> ours = make_parameters(true);
  OptimConfig config;
  config.lr = 1e-2;
  config.groups = {{.pattern = "norm", .weight_decay = 0.0}};
  AdamW optimizer(pointers(ours), config);

  std::vector<at::Tensor> p, m, v, steps;
  for (model::Parameter& q : ours) {
    p.push_back(q.master.detach().clone());
    m.push_back(at::zeros_like(p.back()));
    v.push_back(at::zeros_like(p.back()));
    steps.push_back(at::zeros({}));
  }
  for (int step = 1; step <= 3; ++step) {
    std::vector<at::Tensor> scaled;
    double squares = 0;
    for (model::Parameter& q : ours) squares += q.master.grad().square().sum().item<double>();
    double scale = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
    for (model::Parameter& q : ours) scaled.push_back(q.master.grad() * scale);
    Clipped clipped = optimizer.clip(at::zeros({}));
    EXPECT_NEAR(clipped.norm.item<double>(), std::sqrt(squares), 1e-5);
    optimizer.update(0.5, clipped);
    c10::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      steps[i].add_(1);
      at::_fused_adamw_({p[i]}, {scaled[i]}, {m[i]}, {v[i]}, {}, {steps[i]}, 0.5e-2, 0.9, 0.95,
                        i == 1 ? 0.0 : 0.1, 1e-8, false, false);
      EXPECT_LT((ours[i].master - p[i]).abs().max().item<double>(), 1e-6) << step;
    }
    EXPECT_TRUE(at::equal(ours[0].compute, ours[0].master.to(at::kBFloat16)));
  }
}

TEST(AdamW, ANonFiniteGradientChangesNothing) {
  for (bool in_loss : {false, true}) {
    std::vector<model::Parameter> parameters = make_parameters(true);
    AdamW optimizer(pointers(parameters), {});
    optimizer.update(1.0, optimizer.clip(at::zeros({})));
    std::vector<at::Tensor> before;
    for (auto& [name, t] : optimizer.state()) before.push_back(t.clone());
    for (auto& q : parameters) before.push_back(q.master.detach().clone());
    double nan = std::numeric_limits<double>::quiet_NaN();
    if (!in_loss) parameters[1].master.grad()[3] = nan;
    Clipped clipped = optimizer.clip(in_loss ? at::full({}, nan) : at::zeros({}));
    EXPECT_EQ(clipped.found_inf.item<double>(), 1.0);
    optimizer.update(1.0, clipped);
    std::vector<at::Tensor> after;
    for (auto& [name, t] : optimizer.state()) after.push_back(t);
    for (auto& q : parameters) after.push_back(q.master.detach());
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
  }
}

TEST(AdamW, AMissingGradientIsNamed) {
  std::vector<model::Parameter> parameters = make_parameters(false);
  parameters[1].master.mutable_grad() = at::Tensor();
  AdamW optimizer(pointers(parameters), {});
  try {
    optimizer.clip(at::zeros({}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("norm.weight"), std::string::npos);
  }
}

TEST(AdamW, MomentsInBf16HalveTheState) {
  std::vector<model::Parameter> parameters = make_parameters(false);
  OptimConfig config;
  config.moments = "bf16";
  AdamW optimizer(pointers(parameters), config);
  for (auto& [name, t] : optimizer.state()) {
    EXPECT_EQ(t.scalar_type(), name == "step" ? at::kFloat : at::kBFloat16) << name;
  }
  at::Tensor before = parameters[0].master.detach().clone();
  optimizer.update(1.0, optimizer.clip(at::zeros({})));
  EXPECT_FALSE(at::equal(before, parameters[0].master));
}

}  // namespace
}  // namespace plimsoll::optim
