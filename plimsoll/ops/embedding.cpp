#include "plimsoll/ops/embedding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
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

auto& embedding_op() {
  static auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
          "plimsoll::embedding");
  return op;
}

auto& embedding_backward_op() {
  static auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, int64_t, at::ScalarType)>(
          "plimsoll::embedding_backward");
  return op;
}

void check(const at::Tensor& ids, const at::Tensor& weight, const OptionalTensor& compute) {
  check_float("embedding", "weight", weight);
  check_ids("embedding", "ids", ids, ids.numel());
  if (weight.dim() != 2) fail("embedding", "weight is {}: must be [V, D]", describe(weight));
  if (compute) {
    check_float("embedding", "compute", *compute);
    if (compute->sizes() != weight.sizes()) {
      fail("embedding", "compute is {}: must have the shape of weight {}", describe(*compute),
           describe(weight));
    }
  }
}

template <auto form>
at::Tensor embedding_checked(const at::Tensor& ids, const at::Tensor& weight,
                             const OptionalTensor& compute) {
  check(ids, weight, compute);
  return form(ids, weight, compute);
}

at::Tensor embedding_meta(const at::Tensor& ids, const at::Tensor& weight,
                          const OptionalTensor& compute) {
  check(ids, weight, compute);
  return at::empty({ids.size(0), weight.size(1)}, compute.value_or(weight).options());
}

at::Tensor embedding_backward_meta(const at::Tensor& dy, const at::Tensor& ids, int64_t vocabulary,
                                   at::ScalarType grad_dtype) {
  return at::empty({vocabulary, dy.size(1)}, dy.options().dtype(grad_dtype));
}

struct EmbeddingFunction : torch::autograd::Function<EmbeddingFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& ids, const at::Tensor& weight,
                            const OptionalTensor& compute) {
    BelowAutograd guard;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({ids});
    ctx->saved_data["vocabulary"] = weight.size(0);
    ctx->saved_data["grad_dtype"] = static_cast<int64_t>(grad_dtype_of(weight));
    return embedding_op().call(ids, weight, compute);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined()) return variable_list(3);
    const auto saved = ctx->get_saved_variables();
    variable_list out(3);
    {
      BelowAutograd guard;
      out[1] = embedding_backward_op().call(
          grads[0], saved[0], ctx->saved_data["vocabulary"].toInt(),
          static_cast<at::ScalarType>(ctx->saved_data["grad_dtype"].toInt()));
    }
    return once_differentiable("embedding", std::move(out));
  }
};

at::Tensor embedding_autograd(const at::Tensor& ids, const at::Tensor& weight,
                              const OptionalTensor& compute) {
  if (needs_grad(weight)) return EmbeddingFunction::apply(ids, weight, compute);
  BelowAutograd guard;
  return embedding_op().call(ids, weight, compute);
}

}  // namespace

at::Tensor plain::embedding(const at::Tensor& ids, const at::Tensor& weight,
                            const OptionalTensor& compute) {
  return at::index_select(compute.value_or(weight), 0, ids);
}

at::Tensor plain::embedding_backward(const at::Tensor& dy, const at::Tensor& ids,
                                     int64_t vocabulary, at::ScalarType grad_dtype) {
  const auto sums = sum_dtype(dy.scalar_type());
  auto grad = at::zeros({vocabulary, dy.size(1)}, dy.options().dtype(sums));
  // index_add_ goes by atomics on some devices; a put that accumulates sorts first there. On CPU it
  // is the other way round.
  if (dy.is_cpu()) {
    grad.index_add_(0, ids, dy.to(sums));
  } else {
    grad.index_put_({ids.to(at::kLong)}, dy.to(sums), /*accumulate=*/true);
  }
  return grad.to(grad_dtype);
}

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight,
                     const std::optional<at::Tensor>& compute) {
  return embedding_op().call(ids, weight, if_defined(compute));
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("embedding(Tensor ids, Tensor weight, Tensor? compute=None) -> Tensor");
  m.def(
      "embedding_backward(Tensor dy, Tensor ids, int vocabulary, ScalarType grad_dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("embedding", embedding_checked<plain::embedding>);
  m.impl("embedding_backward", plain::embedding_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("embedding", embedding_checked<fast::embedding>);
  m.impl("embedding_backward", fast::embedding_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("embedding", embedding_meta);
  m.impl("embedding_backward", embedding_backward_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("embedding", embedding_autograd);
}

}  // namespace plimsoll::ops
