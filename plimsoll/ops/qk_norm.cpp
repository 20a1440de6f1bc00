#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalDtype = std::optional<at::ScalarType>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

auto& qk_norm_op() {
  static auto op = find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                     int64_t, int64_t, int64_t, double)>("plimsoll::qk_norm");
  return op;
}

auto& qk_norm_backward_op() {
  static auto op = find_operator<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                       const at::Tensor&, const at::Tensor&, int64_t, int64_t,
                                       int64_t, OptionalDtype)>("plimsoll::qk_norm_backward");
  return op;
}

void check(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
           const HeadLayout& layout) {
  check_layout("qk_norm", qkv, layout);
  check_float("qk_norm", "q_weight", q_weight);
  if (q_weight.dim() != 1 || q_weight.size(0) != layout.head_dim) {
    fail("qk_norm", "q_weight is {}: must be [{}]", describe(q_weight), layout.head_dim);
  }
  check_same("qk_norm", "k_weight", k_weight, q_weight);
}

template <auto form>
Two qk_norm_checked(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                    int64_t heads, int64_t kv_heads, int64_t head_dim, double eps) {
  check(qkv, q_weight, k_weight, {heads, kv_heads, head_dim});
  return form(qkv, q_weight, k_weight, heads, kv_heads, head_dim, eps);
}

Two qk_norm_meta(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                 int64_t heads, int64_t kv_heads, int64_t head_dim, double) {
  check(qkv, q_weight, k_weight, {heads, kv_heads, head_dim});
  return {at::empty(qkv.sizes(), qkv.options()),
          at::empty({qkv.size(0), heads + kv_heads},
                    qkv.options().dtype(sum_dtype(qkv.scalar_type())))};
}

Three qk_norm_backward_meta(const at::Tensor&, const at::Tensor& qkv, const at::Tensor& q_weight,
                            const at::Tensor& k_weight, const at::Tensor&, int64_t, int64_t,
                            int64_t, OptionalDtype grad_dtype) {
  at::Tensor dq_weight, dk_weight;
  if (grad_dtype) {
    dq_weight = at::empty(q_weight.sizes(), q_weight.options().dtype(*grad_dtype));
    dk_weight = at::empty(k_weight.sizes(), k_weight.options().dtype(*grad_dtype));
  }
  return {at::empty(qkv.sizes(), qkv.options()), dq_weight, dk_weight};
}

struct QkNormFunction : torch::autograd::Function<QkNormFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& qkv,
                               const at::Tensor& q_weight, const at::Tensor& k_weight,
                               int64_t heads, int64_t kv_heads, int64_t head_dim, double eps,
                               bool need_dweight) {
    BelowAutograd guard;
    auto [y, rstd] = qk_norm_op().call(qkv, q_weight, k_weight, heads, kv_heads, head_dim, eps);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({qkv, q_weight, k_weight, rstd});
    ctx->mark_non_differentiable({rstd});
    ctx->saved_data["layout"] = std::vector<int64_t>{heads, kv_heads, head_dim};
    ctx->saved_data["grad_dtype"] =
        need_dweight ? at::IValue(static_cast<int64_t>(grad_dtype_of(q_weight))) : at::IValue();
    return {y, rstd};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list out(8);
    if (!grads[0].defined()) return out;
    const auto s = ctx->get_saved_variables();
    const auto layout = ctx->saved_data["layout"].toIntVector();
    const auto& dtype = ctx->saved_data["grad_dtype"];
    {
      BelowAutograd guard;
      std::tie(out[0], out[1], out[2]) = qk_norm_backward_op().call(
          grads[0], s[0], s[1], s[2], s[3], layout[0], layout[1], layout[2],
          dtype.isNone() ? std::nullopt
                         : OptionalDtype(static_cast<at::ScalarType>(dtype.toInt())));
    }
    return once_differentiable("qk_norm", std::move(out));
  }
};

Two qk_norm_autograd(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                     int64_t heads, int64_t kv_heads, int64_t head_dim, double eps) {
  const bool dweight = needs_grad(q_weight) || needs_grad(k_weight);
  if (dweight || needs_grad(qkv)) {
    auto out =
        QkNormFunction::apply(qkv, q_weight, k_weight, heads, kv_heads, head_dim, eps, dweight);
    return {out[0], out[1]};
  }
  BelowAutograd guard;
  return qk_norm_op().call(qkv, q_weight, k_weight, heads, kv_heads, head_dim, eps);
}

/// [heads + kv_heads, head_dim] in `dtype`: the weight that belongs to each normed head.
at::Tensor weight_rows(const at::Tensor& q_weight, const at::Tensor& k_weight, int64_t heads,
                       int64_t kv_heads, at::ScalarType dtype) {
  return at::cat(
      {q_weight.to(dtype).expand({heads, -1}), k_weight.to(dtype).expand({kv_heads, -1})});
}

}  // namespace

Two plain::qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   int64_t heads, int64_t kv_heads, int64_t head_dim, double eps) {
  const int64_t normed = heads + kv_heads;
  const auto sums = sum_dtype(qkv.scalar_type());
  auto out = at::empty(qkv.sizes(), qkv.options());
  out.copy_(qkv);
  auto parts = out.narrow(1, 0, normed * head_dim).view({qkv.size(0), normed, head_dim});
  auto x = parts.to(sums, /*non_blocking=*/false, /*copy=*/true);
  auto rstd = at::rsqrt(at::mean(x * x, {-1}) + eps);
  parts.copy_(x * rstd.unsqueeze(-1) * weight_rows(q_weight, k_weight, heads, kv_heads, sums));
  return {out, rstd};
}

Three plain::qk_norm_backward(const at::Tensor& dy, const at::Tensor& qkv,
                              const at::Tensor& q_weight, const at::Tensor& k_weight,
                              const at::Tensor& rstd, int64_t heads, int64_t kv_heads,
                              int64_t head_dim, OptionalDtype grad_dtype) {
  const int64_t n = qkv.size(0), normed = heads + kv_heads;
  const auto sums = sum_dtype(qkv.scalar_type());
  auto dx = at::empty(qkv.sizes(), qkv.options());
  dx.copy_(dy);
  auto parts = dx.narrow(1, 0, normed * head_dim).view({n, normed, head_dim});
  auto g = parts.to(sums, /*non_blocking=*/false, /*copy=*/true);
  auto r = rstd.unsqueeze(-1);
  auto x_hat = qkv.narrow(1, 0, normed * head_dim).to(sums).reshape({n, normed, head_dim}) * r;
  at::Tensor dq_weight, dk_weight;
  if (grad_dtype) {
    auto both = at::sum(g * x_hat, {0});
    dq_weight = at::sum(both.narrow(0, 0, heads), {0}).to(*grad_dtype);
    dk_weight = at::sum(both.narrow(0, heads, kv_heads), {0}).to(*grad_dtype);
  }
  g = g * weight_rows(q_weight, k_weight, heads, kv_heads, sums);
  parts.copy_(r * (g - x_hat * at::mean(g * x_hat, {-1}, /*keepdim=*/true)));
  return {dx, dq_weight, dk_weight};
}

at::Tensor qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   const HeadLayout& layout, double eps) {
  return std::get<0>(qk_norm_op().call(qkv, q_weight, k_weight, layout.heads, layout.kv_heads,
                                       layout.head_dim, eps));
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "qk_norm(Tensor qkv, Tensor q_weight, Tensor k_weight, int heads, int kv_heads, int "
      "head_dim, float eps) -> (Tensor, Tensor)");
  m.def(
      "qk_norm_backward(Tensor dy, Tensor qkv, Tensor q_weight, Tensor k_weight, Tensor rstd, int "
      "heads, int kv_heads, int head_dim, ScalarType? grad_dtype) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("qk_norm", qk_norm_checked<plain::qk_norm>);
  m.impl("qk_norm_backward", plain::qk_norm_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("qk_norm", qk_norm_checked<fast::qk_norm>);
  m.impl("qk_norm_backward", fast::qk_norm_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("qk_norm", qk_norm_meta);
  m.impl("qk_norm_backward", qk_norm_backward_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("qk_norm", qk_norm_autograd);
}

}  // namespace plimsoll::ops
