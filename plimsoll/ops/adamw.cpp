#include "plimsoll/ops/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <cmath>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using plain::OptionalTensor;
using AdamWSignature = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                            at::TensorList, const at::Tensor&, const at::Tensor&, double, double,
                            double, double, const OptionalTensor&, const OptionalTensor&);

auto& adamw_op() {
  static auto op = find_operator<AdamWSignature>("plimsoll::adamw_");
  return op;
}

auto& grad_norm_op() {
  static auto op = find_operator<at::Tensor(at::TensorList)>("plimsoll::grad_norm");
  return op;
}

void check_scalar(const char* name, const at::Tensor& t, const at::Tensor& like) {
  if (t.numel() != 1 || t.scalar_type() != at::kFloat || t.device() != like.device()) {
    fail("adamw", "{} is {} on {}: must be an fp32 scalar on {}", name, describe(t),
         t.device().str(), like.device().str());
  }
}

void check(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
           at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
           const at::Tensor& step, const OptionalTensor& grad_scale,
           const OptionalTensor& found_inf) {
  const size_t n = params.size();
  if (grads.size() != n || exp_avg.size() != n || exp_avg_sq.size() != n ||
      (!compute.empty() && compute.size() != n)) {
    fail("adamw", "{} params, {} grads, {} exp_avg, {} exp_avg_sq, {} compute: must be as many", n,
         grads.size(), exp_avg.size(), exp_avg_sq.size(), compute.size());
  }
  if (n == 0) return;
  auto check_one = [&](const char* name, size_t i, const at::Tensor& t) {
    if (!t.defined()) fail("adamw", "{}[{}] is undefined", name, i);
    check_float("adamw", name, t);
    if (t.sizes() != params[i].sizes() || !t.is_contiguous() || t.device() != params[0].device()) {
      fail("adamw", "{}[{}] is {}{} on {}: must be contiguous, {}, on {}", name, i, describe(t),
           t.is_contiguous() ? "" : " (not contiguous)", t.device().str(), describe(params[i]),
           params[0].device().str());
    }
  };
  for (size_t i = 0; i < n; ++i) {
    if (params[i].defined() && params[i].scalar_type() == at::kBFloat16) {
      fail("adamw", "params[{}] is {}: must be fp32 (a master)", i, describe(params[i]));
    }
    check_one("params", i, params[i]);
    check_one("grads", i, grads[i]);
    check_one("exp_avg", i, exp_avg[i]);
    check_one("exp_avg_sq", i, exp_avg_sq[i]);
    if (!compute.empty()) check_one("compute", i, compute[i]);
  }
  check_scalar("lr", lr, params[0]);
  check_scalar("step", step, params[0]);
  if (grad_scale) check_scalar("grad_scale", *grad_scale, params[0]);
  if (found_inf) check_scalar("found_inf", *found_inf, params[0]);
}

void check_grads(at::TensorList grads) {
  if (grads.empty()) fail("grad_norm", "there are no gradients");
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) fail("grad_norm", "gradient {} is undefined", i);
    check_float("grad_norm", "a gradient", grads[i]);
  }
}

template <auto form>
void adamw_checked_(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                    at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
                    const at::Tensor& step, double beta1, double beta2, double eps,
                    double weight_decay, const OptionalTensor& grad_scale,
                    const OptionalTensor& found_inf) {
  check(params, grads, exp_avg, exp_avg_sq, compute, lr, step, grad_scale, found_inf);
  form(params, grads, exp_avg, exp_avg_sq, compute, lr, step, beta1, beta2, eps, weight_decay,
       grad_scale, found_inf);
}

void adamw_meta_(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                 at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
                 const at::Tensor& step, double, double, double, double,
                 const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  check(params, grads, exp_avg, exp_avg_sq, compute, lr, step, grad_scale, found_inf);
}

template <auto form>
at::Tensor grad_norm_checked(at::TensorList grads) {
  check_grads(grads);
  return form(grads);
}

at::Tensor grad_norm_meta(at::TensorList grads) {
  check_grads(grads);
  return at::empty({}, grads[0].options().dtype(at::kFloat));
}

void adamw_autograd_(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                     at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
                     const at::Tensor& step, double beta1, double beta2, double eps,
                     double weight_decay, const OptionalTensor& grad_scale,
                     const OptionalTensor& found_inf) {
  BelowAutograd guard;
  adamw_op().call(params, grads, exp_avg, exp_avg_sq, compute, lr, step, beta1, beta2, eps,
                  weight_decay, grad_scale, found_inf);
  // A graph that saved one of these before must notice.
  for (const auto& list : {params, exp_avg, exp_avg_sq, compute}) {
    for (const auto& t : list) {
      if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
    }
  }
}

at::Tensor grad_norm_autograd(at::TensorList grads) {
  BelowAutograd guard;
  return grad_norm_op().call(grads);
}

}  // namespace

void plain::adamw_(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                   at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
                   const at::Tensor& step, double beta1, double beta2, double eps,
                   double weight_decay, const OptionalTensor& grad_scale,
                   const OptionalTensor& found_inf) {
  if (params.empty()) return;
  // 1 - beta^step would lose its digits in fp32.
  auto correction1 = at::expm1(step * std::log(beta1)).neg_();
  auto correction2 = at::expm1(step * std::log(beta2)).neg_();
  auto decay = 1 - lr * weight_decay;
  auto step_size = lr / correction1;
  at::Tensor skip;
  if (found_inf) skip = *found_inf != 0;
  auto store = [&](const at::Tensor& to, const at::Tensor& value) {
    auto rounded = value.to(to.scalar_type());
    to.copy_(skip.defined() ? at::where(skip, to, rounded) : rounded);
  };
  for (size_t i = 0; i < params.size(); ++i) {
    const auto dtype = params[i].scalar_type();
    auto g = grads[i].to(dtype);
    if (grad_scale) g = g * *grad_scale;
    auto m = exp_avg[i].to(dtype);
    m = m + (g - m) * (1 - beta1);
    auto v = exp_avg_sq[i].to(dtype) * beta2 + g * g * (1 - beta2);
    auto p = params[i] * decay - step_size * m / (at::sqrt(v) / at::sqrt(correction2) + eps);
    store(exp_avg[i], m);
    store(exp_avg_sq[i], v);
    store(params[i], p);
    if (!compute.empty()) store(compute[i], p);
  }
}

at::Tensor plain::grad_norm(at::TensorList grads) {
  std::vector<at::Tensor> norms;
  norms.reserve(grads.size());
  for (const auto& g : grads) {
    norms.push_back(at::linalg_vector_norm(g, 2, std::nullopt, false, at::kDouble));
  }
  return at::linalg_vector_norm(at::stack(norms), 2).to(at::kFloat);
}

void adamw_(const AdamWTensors& t, const AdamWScalars& s) {
  adamw_op().call(t.params, t.grads, t.exp_avg, t.exp_avg_sq, t.compute, s.lr, s.step, s.beta1,
                  s.beta2, s.eps, s.weight_decay, s.grad_scale, s.found_inf);
}

at::Tensor grad_norm(const std::vector<at::Tensor>& grads) {
  return grad_norm_op().call(grads);
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avg, Tensor(c!)[] exp_avg_sq, "
      "Tensor(d!)[] compute, Tensor lr, Tensor step, float beta1, float beta2, float eps, float "
      "weight_decay, Tensor? grad_scale, Tensor? found_inf) -> ()");
  m.def("grad_norm(Tensor[] grads) -> Tensor");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("adamw_", adamw_checked_<plain::adamw_>);
  m.impl("grad_norm", grad_norm_checked<plain::grad_norm>);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("adamw_", adamw_checked_<fast::adamw_>);
  m.impl("grad_norm", grad_norm_checked<fast::grad_norm>);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("adamw_", adamw_meta_);
  m.impl("grad_norm", grad_norm_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("adamw_", adamw_autograd_);
  m.impl("grad_norm", grad_norm_autograd);
}

}  // namespace plimsoll::ops
