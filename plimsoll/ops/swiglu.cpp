#include "plimsoll/ops/swiglu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sigmoid.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

auto& swiglu_op() {
  static auto op = find_operator<at::Tensor(const at::Tensor&)>("plimsoll::swiglu");
  return op;
}

auto& swiglu_backward_op() {
  static auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>("plimsoll::swiglu_backward");
  return op;
}

void check(const at::Tensor& gate_up) {
  check_float("swiglu", "gate_up", gate_up);
  if (gate_up.dim() != 2 || gate_up.size(1) % 2 != 0) {
    fail("swiglu", "gate_up is {}: must be [N, 2F]", describe(gate_up));
  }
}

template <auto form>
at::Tensor swiglu_checked(const at::Tensor& gate_up) {
  check(gate_up);
  return form(gate_up);
}

at::Tensor swiglu_meta(const at::Tensor& gate_up) {
  check(gate_up);
  return at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
}

at::Tensor swiglu_backward_meta(const at::Tensor&, const at::Tensor& gate_up) {
  return at::empty(gate_up.sizes(), gate_up.options());
}

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up) {
    BelowAutograd guard;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({gate_up});
    return swiglu_op().call(gate_up);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined()) return variable_list(1);
    at::Tensor dx;
    {
      BelowAutograd guard;
      dx = swiglu_backward_op().call(grads[0], ctx->get_saved_variables()[0]);
    }
    return once_differentiable("swiglu", {dx});
  }
};

at::Tensor swiglu_autograd(const at::Tensor& gate_up) {
  if (needs_grad(gate_up)) return SwigluFunction::apply(gate_up);
  BelowAutograd guard;
  return swiglu_op().call(gate_up);
}

}  // namespace

at::Tensor plain::swiglu(const at::Tensor& gate_up) {
  const int64_t f = gate_up.size(1) / 2;
  auto both = gate_up.to(sum_dtype(gate_up.scalar_type()));
  auto gate = both.narrow(1, 0, f);
  return (gate * at::sigmoid(gate) * both.narrow(1, f, f)).to(gate_up.scalar_type()).contiguous();
}

at::Tensor plain::swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up) {
  const int64_t f = gate_up.size(1) / 2;
  auto both = gate_up.to(sum_dtype(gate_up.scalar_type()));
  auto gate = both.narrow(1, 0, f), up = both.narrow(1, f, f);
  auto s = at::sigmoid(gate), silu = gate * s;
  return at::cat({dy * up * (s + silu - silu * s), dy * silu}, 1).to(gate_up.scalar_type());
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  return swiglu_op().call(gate_up);
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("swiglu(Tensor gate_up) -> Tensor");
  m.def("swiglu_backward(Tensor dy, Tensor gate_up) -> Tensor");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("swiglu", swiglu_checked<plain::swiglu>);
  m.impl("swiglu_backward", plain::swiglu_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("swiglu", swiglu_checked<fast::swiglu>);
  m.impl("swiglu_backward", fast::swiglu_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("swiglu", swiglu_meta);
  m.impl("swiglu_backward", swiglu_backward_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("swiglu", swiglu_autograd);
}

}  // namespace plimsoll::ops
