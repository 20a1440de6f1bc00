#include "plimsoll/ops/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using plain::OptionalTensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalDtype = std::optional<at::ScalarType>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

auto& rms_norm_op() {
  static auto op =
      find_operator<Two(const at::Tensor&, const at::Tensor&, double)>("plimsoll::rms_norm");
  return op;
}

auto& add_rms_norm_op() {
  static auto op =
      find_operator<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&, double)>(
          "plimsoll::add_rms_norm");
  return op;
}

auto& rms_norm_backward_op() {
  static auto op =
      find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const OptionalTensor&, OptionalDtype)>("plimsoll::rms_norm_backward");
  return op;
}

void check(const char* op, const at::Tensor& x, const at::Tensor& weight) {
  check_float(op, "x", x);
  check_float(op, "weight", weight);
  if (x.dim() < 1 || weight.dim() != 1 || x.size(-1) != weight.size(0) || weight.size(0) == 0) {
    fail(op, "x {} does not fit weight {}: must be [..., D] and [D]", describe(x),
         describe(weight));
  }
}

at::Tensor empty_rstd(const at::Tensor& x) {
  return at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(sum_dtype(x.scalar_type())));
}

template <auto form>
Two rms_norm_checked(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check("rms_norm", x, weight);
  return form(x, weight, eps);
}

template <auto form>
Three add_rms_norm_checked(const at::Tensor& x, const at::Tensor& residual,
                           const at::Tensor& weight, double eps) {
  check("add_rms_norm", x, weight);
  check_same("add_rms_norm", "residual", residual, x);
  return form(x, residual, weight, eps);
}

Two rms_norm_meta(const at::Tensor& x, const at::Tensor& weight, double) {
  check("rms_norm", x, weight);
  return {at::empty(x.sizes(), x.options()), empty_rstd(x)};
}

Three add_rms_norm_meta(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                        double) {
  check("add_rms_norm", x, weight);
  check_same("add_rms_norm", "residual", residual, x);
  return {at::empty(x.sizes(), x.options()), at::empty(x.sizes(), x.options()), empty_rstd(x)};
}

Two rms_norm_backward_meta(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           const at::Tensor&, const OptionalTensor&, OptionalDtype grad_dtype) {
  at::Tensor dweight;
  if (grad_dtype) dweight = at::empty(weight.sizes(), weight.options().dtype(*grad_dtype));
  return {at::empty(x.sizes(), x.options()), dweight};
}

void save(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
          const at::Tensor& rstd, bool need_dweight) {
  ctx->set_materialize_grads(false);
  ctx->save_for_backward({x, weight, rstd});
  ctx->mark_non_differentiable({rstd});
  ctx->saved_data["grad_dtype"] =
      need_dweight ? at::IValue(static_cast<int64_t>(grad_dtype_of(weight))) : at::IValue();
}

/// The gradients of the normed tensor and of the weight; dy or d_sum may be undefined, not both.
Two backward_of(AutogradContext* ctx, const at::Tensor& dy, const at::Tensor& d_sum) {
  BelowAutograd guard;
  const auto& dtype = ctx->saved_data["grad_dtype"];
  const auto saved = ctx->get_saved_variables();
  if (!dy.defined()) return {d_sum, at::Tensor()};
  return rms_norm_backward_op().call(
      dy, saved[0], saved[1], saved[2], d_sum.defined() ? OptionalTensor(d_sum) : std::nullopt,
      dtype.isNone() ? std::nullopt : OptionalDtype(static_cast<at::ScalarType>(dtype.toInt())));
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                               double eps, bool need_dweight) {
    BelowAutograd guard;
    auto [y, rstd] = rms_norm_op().call(x, weight, eps);
    save(ctx, x, weight, rstd, need_dweight);
    return {y, rstd};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined()) return variable_list(4);
    auto [dx, dweight] = backward_of(ctx, grads[0], {});
    return once_differentiable("rms_norm", {dx, dweight, at::Tensor(), at::Tensor()});
  }
};

struct AddRmsNormFunction : torch::autograd::Function<AddRmsNormFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const at::Tensor& residual, const at::Tensor& weight, double eps,
                               bool need_dweight) {
    BelowAutograd guard;
    auto [sum, y, rstd] = add_rms_norm_op().call(x, residual, weight, eps);
    save(ctx, sum, weight, rstd, need_dweight);
    return {sum, y, rstd};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined() && !grads[1].defined()) return variable_list(5);
    auto [dx, dweight] = backward_of(ctx, grads[1], grads[0]);
    return once_differentiable("add_rms_norm", {dx, dx, dweight, at::Tensor(), at::Tensor()});
  }
};

Two rms_norm_autograd(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const bool dweight = needs_grad(weight);
  if (dweight || needs_grad(x)) {
    auto out = RmsNormFunction::apply(x, weight, eps, dweight);
    return {out[0], out[1]};
  }
  BelowAutograd guard;
  return rms_norm_op().call(x, weight, eps);
}

Three add_rms_norm_autograd(const at::Tensor& x, const at::Tensor& residual,
                            const at::Tensor& weight, double eps) {
  const bool dweight = needs_grad(weight);
  if (dweight || needs_grad(x) || needs_grad(residual)) {
    auto out = AddRmsNormFunction::apply(x, residual, weight, eps, dweight);
    return {out[0], out[1], out[2]};
  }
  BelowAutograd guard;
  return add_rms_norm_op().call(x, residual, weight, eps);
}

}  // namespace

Two plain::rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto sums = sum_dtype(x.scalar_type());
  auto xs = x.to(sums);
  auto rstd = at::rsqrt(at::mean(xs * xs, {-1}) + eps);
  return {(xs * rstd.unsqueeze(-1) * weight.to(sums)).to(x.scalar_type()).contiguous(), rstd};
}

Three plain::add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                          double eps) {
  auto sum = at::add(x, residual).contiguous();
  auto [y, rstd] = plain::rms_norm(sum, weight, eps);
  return {sum, y, rstd};
}

Two plain::rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& rstd, const OptionalTensor& d_sum,
                             OptionalDtype grad_dtype) {
  const auto sums = sum_dtype(x.scalar_type());
  auto r = rstd.unsqueeze(-1);
  auto x_hat = x.to(sums) * r;
  auto g = dy.to(sums);
  at::Tensor dweight;
  if (grad_dtype) {
    dweight = at::sum((g * x_hat).reshape({-1, weight.size(0)}), {0}).to(*grad_dtype);
  }
  g = g * weight.to(sums);
  auto dx = r * (g - x_hat * at::mean(g * x_hat, {-1}, /*keepdim=*/true));
  if (d_sum) dx = dx + *d_sum;
  return {dx.to(x.scalar_type()).contiguous(), dweight};
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return std::get<0>(rms_norm_op().call(x, weight, eps));
}

std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual,
                                               const at::Tensor& weight, double eps) {
  auto [sum, y, rstd] = add_rms_norm_op().call(x, residual, weight, eps);
  return {sum, y};
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  m.def(
      "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor, "
      "Tensor)");
  m.def(
      "rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor rstd, Tensor? d_sum, "
      "ScalarType? grad_dtype) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", rms_norm_checked<plain::rms_norm>);
  m.impl("add_rms_norm", add_rms_norm_checked<plain::add_rms_norm>);
  m.impl("rms_norm_backward", plain::rms_norm_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("rms_norm", rms_norm_checked<fast::rms_norm>);
  m.impl("add_rms_norm", add_rms_norm_checked<fast::add_rms_norm>);
  m.impl("rms_norm_backward", fast::rms_norm_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("rms_norm", rms_norm_meta);
  m.impl("add_rms_norm", add_rms_norm_meta);
  m.impl("rms_norm_backward", rms_norm_backward_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("rms_norm", rms_norm_autograd);
  m.impl("add_rms_norm", add_rms_norm_autograd);
}

}  // namespace plimsoll::ops
