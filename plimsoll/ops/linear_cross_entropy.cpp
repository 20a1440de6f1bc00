#include "plimsoll/ops/linear_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using plain::OptionalTensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalDtype = std::optional<at::ScalarType>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

auto& loss_op() {
  static auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                               const at::Tensor&, int64_t)>("plimsoll::linear_cross_entropy");
  return op;
}

auto& forward_op() {
  static auto op = find_operator<Three(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                       const at::Tensor&, int64_t, bool, OptionalDtype)>(
      "plimsoll::linear_cross_entropy_forward");
  return op;
}

auto& backward_op() {
  static auto op =
      find_operator<void(const at::Tensor&, const OptionalTensor&, const OptionalTensor&)>(
          "plimsoll::linear_cross_entropy_backward_");
  return op;
}

void check(const at::Tensor& h, const at::Tensor& weight, const OptionalTensor& compute,
           const at::Tensor& targets, int64_t chunk_rows) {
  const char* op = "linear_cross_entropy";
  check_float(op, "h", h);
  check_float(op, "weight", weight);
  if (h.dim() != 2 || weight.dim() != 2 || h.size(1) != weight.size(1) || weight.size(0) == 0) {
    fail(op, "h {} does not fit weight {}: must be [N, D] and [V, D]", describe(h),
         describe(weight));
  }
  if (compute && (compute->sizes() != weight.sizes() || compute->dtype() != h.dtype())) {
    fail(op, "compute is {}: must have the shape of weight {} and the dtype of h {}",
         describe(*compute), describe(weight), describe(h));
  }
  check_ids(op, "targets", targets, h.size(0));
  if (chunk_rows < 0) fail(op, "chunk_rows is {}: must be 0 or more", chunk_rows);
}

template <auto form>
Three forward_checked(const at::Tensor& h, const at::Tensor& weight, const OptionalTensor& compute,
                      const at::Tensor& targets, int64_t chunk_rows, bool need_dh,
                      OptionalDtype grad_dtype) {
  check(h, weight, compute, targets, chunk_rows);
  return form(h, weight, compute, targets, chunk_rows, need_dh, grad_dtype);
}

Three forward_meta(const at::Tensor& h, const at::Tensor& weight, const OptionalTensor& compute,
                   const at::Tensor& targets, int64_t chunk_rows, bool need_dh,
                   OptionalDtype grad_dtype) {
  check(h, weight, compute, targets, chunk_rows);
  at::Tensor dh, dweight;
  if (need_dh) dh = at::empty(h.sizes(), h.options());
  if (grad_dtype) dweight = at::empty(weight.sizes(), weight.options().dtype(*grad_dtype));
  return {at::empty({}, h.options().dtype(sum_dtype(h.scalar_type()))), dh, dweight};
}

at::Tensor loss_without_gradient(const at::Tensor& h, const at::Tensor& weight,
                                 const OptionalTensor& compute, const at::Tensor& targets,
                                 int64_t chunk_rows) {
  return std::get<0>(
      forward_op().call(h, weight, compute, targets, chunk_rows, false, std::nullopt));
}

/// Scales the gradients that forward computed, where they lie.
void backward_(const at::Tensor& d_loss, const OptionalTensor& dh, const OptionalTensor& dweight) {
  if (dh) dh->mul_(d_loss);
  if (dweight) dweight->mul_(d_loss);
}

void backward_meta_(const at::Tensor&, const OptionalTensor&, const OptionalTensor&) {}

struct LossFunction : torch::autograd::Function<LossFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& h, const at::Tensor& weight,
                            const OptionalTensor& compute, const at::Tensor& targets,
                            int64_t chunk_rows, bool need_dh, bool need_dweight) {
    BelowAutograd guard;
    auto [loss, dh, dweight] =
        forward_op().call(h, weight, compute, targets, chunk_rows, need_dh,
                          need_dweight ? OptionalDtype(grad_dtype_of(weight)) : std::nullopt);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({dh, dweight});
    return loss;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list out(7);
    if (!grads[0].defined()) return out;
    if (ctx->saved_data.count("spent") != 0) {
      fail("linear_cross_entropy",
           "backward ran before: its gradients were scaled in place and "
           "handed out; compute the loss again");
    }
    ctx->saved_data["spent"] = true;
    auto saved = ctx->get_saved_variables();
    auto present = [](const at::Tensor& t) {
      return t.defined() ? OptionalTensor(t) : std::nullopt;
    };
    {
      BelowAutograd guard;
      backward_op().call(grads[0], present(saved[0]), present(saved[1]));
    }
    out[0] = std::move(saved[0]);
    out[1] = std::move(saved[1]);
    return once_differentiable("linear_cross_entropy", std::move(out));
  }
};

at::Tensor loss_autograd(const at::Tensor& h, const at::Tensor& weight,
                         const OptionalTensor& compute, const at::Tensor& targets,
                         int64_t chunk_rows) {
  const bool dh = needs_grad(h), dweight = needs_grad(weight);
  if (dh || dweight) {
    return LossFunction::apply(h, weight, compute, targets, chunk_rows, dh, dweight);
  }
  BelowAutograd guard;
  return loss_op().call(h, weight, compute, targets, chunk_rows);
}

/// Sum of the losses of logits[n, V]; with need_grad the logits become their gradients.
at::Tensor softmax_plain(at::Tensor& logits, const at::Tensor& targets, bool need_grad) {
  auto z = logits.to(sum_dtype(logits.scalar_type()));
  auto lse = at::logsumexp(z, {1}, /*keepdim=*/true);
  auto valid = (targets != kIgnoredTarget).unsqueeze(1);
  auto index = at::clamp_min(targets, 0).to(at::kLong).unsqueeze(1);
  auto losses = (lse - at::gather(z, 1, index)).masked_fill_(valid.logical_not(), 0);
  if (need_grad) {
    auto p = at::exp(z - lse);
    p.scatter_add_(1, index, at::ones_like(lse).neg_());
    logits.copy_(p.masked_fill_(valid.logical_not(), 0));
  }
  return at::sum(losses);
}

}  // namespace

int64_t loss_chunk_rows(int64_t n, int64_t vocabulary, int64_t asked) {
  constexpr int64_t kNumbers = int64_t{128} << 20;
  const int64_t rows =
      asked > 0 ? asked : std::clamp<int64_t>(kNumbers / vocabulary / 64 * 64, 64, 2048);
  return std::clamp<int64_t>(rows, 1, std::max<int64_t>(n, 1));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> chunked_loss(
    const at::Tensor& h, const at::Tensor& weight, const OptionalTensor& compute,
    const at::Tensor& targets, int64_t chunk_rows, bool need_dh, OptionalDtype grad_dtype,
    SoftmaxInPlace softmax) {
  const int64_t n = h.size(0), v = weight.size(0);
  const auto sums = sum_dtype(h.scalar_type());
  const bool need_grad = need_dh || grad_dtype.has_value();
  auto w = compute.value_or(weight).to(h.scalar_type());
  auto loss = at::zeros({}, h.options().dtype(sums));
  at::Tensor dh, dweight;
  if (need_dh) dh = at::empty({n, h.size(1)}, h.options());
  if (grad_dtype) dweight = at::zeros(weight.sizes(), weight.options().dtype(sums));
  const int64_t rows = loss_chunk_rows(n, v, chunk_rows);
  auto buffer = at::empty({rows, v}, h.options());
  for (int64_t from = 0; from < n; from += rows) {
    const int64_t count = std::min(rows, n - from);
    auto logits = buffer.narrow(0, 0, count);
    auto x = h.narrow(0, from, count);
    at::mm_out(logits, x, w.t());
    loss += softmax(logits, targets.narrow(0, from, count), need_grad);
    if (need_dh) {
      auto out = dh.narrow(0, from, count);
      at::mm_out(out, logits, w);
    }
    if (!grad_dtype) continue;
    if (h.scalar_type() == sums) {
      dweight.addmm_(logits.t(), x);
    } else {
      dweight.add_(at::mm(logits.t(), x));
    }
  }
  return {loss, dh, grad_dtype ? dweight.to(*grad_dtype) : dweight};
}

Three plain::linear_cross_entropy_forward(const at::Tensor& h, const at::Tensor& weight,
                                          const OptionalTensor& compute, const at::Tensor& targets,
                                          int64_t chunk_rows, bool need_dh,
                                          OptionalDtype grad_dtype) {
  return chunked_loss(h, weight, compute, targets, chunk_rows, need_dh, grad_dtype, softmax_plain);
}

at::Tensor linear_cross_entropy(const at::Tensor& h, const at::Tensor& weight,
                                const std::optional<at::Tensor>& compute, const at::Tensor& targets,
                                int64_t chunk_rows) {
  return loss_op().call(h, weight, if_defined(compute), targets, chunk_rows);
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "linear_cross_entropy(Tensor h, Tensor weight, Tensor? compute, Tensor targets, int "
      "chunk_rows) -> Tensor");
  m.def(
      "linear_cross_entropy_forward(Tensor h, Tensor weight, Tensor? compute, Tensor targets, int "
      "chunk_rows, bool need_dh, ScalarType? grad_dtype) -> (Tensor, Tensor, Tensor)");
  m.def("linear_cross_entropy_backward_(Tensor d_loss, Tensor(a!)? dh, Tensor(b!)? dweight) -> ()");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", loss_without_gradient);
  m.impl("linear_cross_entropy_forward", forward_checked<plain::linear_cross_entropy_forward>);
  m.impl("linear_cross_entropy_backward_", backward_);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("linear_cross_entropy_forward", forward_checked<fast::linear_cross_entropy_forward>);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("linear_cross_entropy_forward", forward_meta);
  m.impl("linear_cross_entropy_backward_", backward_meta_);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("linear_cross_entropy", loss_autograd);
}

}  // namespace plimsoll::ops
