#include "plimsoll/ops/linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using plain::OptionalTensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

auto& linear_op() {
  static auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
          "plimsoll::linear");
  return op;
}

auto& linear_backward_op() {
  static auto op = find_operator<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const OptionalTensor&, const OptionalTensor&, at::ScalarType)>(
      "plimsoll::linear_backward");
  return op;
}

void check(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& compute) {
  check_float("linear", "x", x);
  check_float("linear", "weight", weight);
  if (x.dim() != 2 || weight.dim() != 2 || x.size(1) != weight.size(1)) {
    fail("linear", "x {} does not fit weight {}: must be [N, in] and [out, in]", describe(x),
         describe(weight));
  }
  if (compute && (compute->sizes() != weight.sizes() || compute->dtype() != x.dtype())) {
    fail("linear", "compute is {}: must have the shape of weight {} and the dtype of x {}",
         describe(*compute), describe(weight), describe(x));
  }
}

at::Tensor linear_plain(const at::Tensor& x, const at::Tensor& weight,
                        const OptionalTensor& compute) {
  check(x, weight, compute);
  return plain::linear(x, weight, compute);
}

at::Tensor linear_meta(const at::Tensor& x, const at::Tensor& weight,
                       const OptionalTensor& compute) {
  check(x, weight, compute);
  return at::empty({x.size(0), weight.size(0)}, x.options());
}

std::tuple<at::Tensor, at::Tensor> linear_backward_meta(const at::Tensor& dy,
                                                        const OptionalTensor& x,
                                                        const OptionalTensor& weight,
                                                        at::ScalarType grad_dtype) {
  at::Tensor dx, dweight;
  if (weight) dx = at::empty({dy.size(0), weight->size(1)}, dy.options());
  if (x) dweight = at::empty({dy.size(1), x->size(1)}, dy.options().dtype(grad_dtype));
  return {dx, dweight};
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const OptionalTensor& compute, bool need_dx, bool need_dweight) {
    BelowAutograd guard;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(
        {need_dweight ? x : at::Tensor(), need_dx ? compute.value_or(weight) : at::Tensor()});
    ctx->saved_data["grad_dtype"] = static_cast<int64_t>(grad_dtype_of(weight));
    return linear_op().call(x, weight, compute);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined()) return variable_list(5);
    const auto saved = ctx->get_saved_variables();
    const auto dtype = static_cast<at::ScalarType>(ctx->saved_data["grad_dtype"].toInt());
    auto present = [](const at::Tensor& t) {
      return t.defined() ? OptionalTensor(t) : std::nullopt;
    };
    variable_list out(5);
    {
      BelowAutograd guard;
      std::tie(out[0], out[1]) =
          linear_backward_op().call(grads[0], present(saved[0]), present(saved[1]), dtype);
    }
    return once_differentiable("linear", std::move(out));
  }
};

at::Tensor linear_autograd(const at::Tensor& x, const at::Tensor& weight,
                           const OptionalTensor& compute) {
  const bool dx = needs_grad(x), dweight = needs_grad(weight);
  if (dx || dweight) return LinearFunction::apply(x, weight, compute, dx, dweight);
  BelowAutograd guard;
  return linear_op().call(x, weight, compute);
}

}  // namespace

at::Tensor plain::linear(const at::Tensor& x, const at::Tensor& weight,
                         const OptionalTensor& compute) {
  return at::mm(x, compute.value_or(weight).to(x.scalar_type()).t());
}

std::tuple<at::Tensor, at::Tensor> plain::linear_backward(const at::Tensor& dy,
                                                          const OptionalTensor& x,
                                                          const OptionalTensor& weight,
                                                          at::ScalarType grad_dtype) {
  at::Tensor dx, dweight;
  if (weight) dx = at::mm(dy, weight->to(dy.scalar_type()));
  if (x) dweight = at::mm(dy.t(), *x).to(grad_dtype);
  return {dx, dweight};
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& compute) {
  return linear_op().call(x, weight, if_defined(compute));
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("linear(Tensor x, Tensor weight, Tensor? compute=None) -> Tensor");
  m.def(
      "linear_backward(Tensor dy, Tensor? x, Tensor? weight, ScalarType grad_dtype) -> (Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("linear", linear_plain);
  m.impl("linear_backward", plain::linear_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("linear", linear_meta);
  m.impl("linear_backward", linear_backward_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("linear", linear_autograd);
}

}  // namespace plimsoll::ops
