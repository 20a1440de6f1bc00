#include "plimsoll/optim/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/adamw.h"

namespace plimsoll::optim {

AdamW::AdamW(std::vector<model::Parameter*> parameters, const OptimConfig& config)
    : parameters_(std::move(parameters)), max_norm_(config.max_norm) {
  std::vector<std::string> names;
  for (const model::Parameter* p : parameters_) names.push_back(p->name);
  groups_ = assign_groups(config, names);

  const c10::Device device = parameters_.front()->master.device();
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(device);
  const at::ScalarType moments = config.moments == "bf16" ? at::kBFloat16 : at::kFloat;
  step_ = at::zeros({}, scalar);
  for (size_t i = 0; i < groups_.size(); ++i) lr_.push_back(at::zeros({}, scalar));
  for (const model::Parameter* p : parameters_) {
    exp_avg_.push_back(at::zeros_like(p->master, at::TensorOptions().dtype(moments)));
    exp_avg_sq_.push_back(at::zeros_like(p->master, at::TensorOptions().dtype(moments)));
  }
}

Clipped AdamW::clip(const at::Tensor& loss) const {
  c10::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  for (const model::Parameter* p : parameters_) {
    const at::Tensor& grad = p->master.grad();
    if (!grad.defined()) {
      throw Error(fmt::format("parameter {} has no gradient", p->name),
                  "every trainable parameter must take part in the loss");
    }
    grads.push_back(grad);
  }
  Clipped c;
  c.norm = ops::grad_norm(grads);
  c.scale = max_norm_ > 0 ? (max_norm_ / (c.norm + 1e-6)).clamp_max_(1.0) : at::ones_like(c.norm);
  c.found_inf = at::isfinite(c.norm).logical_and_(at::isfinite(loss)).logical_not_().to(at::kFloat);
  return c;
}

void AdamW::update(double lr_factor, const Clipped& clipped) {
  c10::NoGradGuard no_grad;
  step_.add_(1 - clipped.found_inf);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    lr_[g].fill_(group.hyper.lr * lr_factor);
    // The operator wants a copy for each parameter or for none, so those with and without one go in
    // two calls.
    for (bool with_copy : {true, false}) {
      ops::AdamWTensors tensors;
      for (size_t i : group.members) {
        const model::Parameter& p = *parameters_[i];
        if (p.compute.defined() != with_copy) continue;
        tensors.params.push_back(p.master);
        tensors.grads.push_back(p.master.grad());
        tensors.exp_avg.push_back(exp_avg_[i]);
        tensors.exp_avg_sq.push_back(exp_avg_sq_[i]);
        if (with_copy) tensors.compute.push_back(p.compute);
      }
      if (tensors.params.empty()) continue;
      ops::adamw_(tensors, {.lr = lr_[g],
                            .step = step_,
                            .beta1 = group.hyper.beta1,
                            .beta2 = group.hyper.beta2,
                            .eps = group.hyper.eps,
                            .weight_decay = group.hyper.weight_decay,
                            .grad_scale = clipped.scale,
                            .found_inf = clipped.found_inf});
    }
  }
}

void AdamW::zero_grad() {
  for (model::Parameter* p : parameters_) p->master.mutable_grad() = at::Tensor();
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> out{{"step", step_}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    out.emplace_back("exp_avg." + parameters_[i]->name, exp_avg_[i]);
    out.emplace_back("exp_avg_sq." + parameters_[i]->name, exp_avg_sq_[i]);
  }
  return out;
}

std::vector<double> AdamW::learning_rates() const {
  std::vector<double> out;
  for (const Group& g : groups_) out.push_back(g.hyper.lr);
  return out;
}

}  // namespace plimsoll::optim
