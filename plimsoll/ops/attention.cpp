#include "plimsoll/ops/attention.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Two = std::tuple<at::Tensor, at::Tensor>;

auto& attention_op() {
  static auto op =
      find_operator<Two(const at::Tensor&, const at::Tensor&, int64_t, int64_t, int64_t, double)>(
          "plimsoll::attention");
  return op;
}

auto& attention_backward_op() {
  static auto op = find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                            const at::Tensor&, const at::Tensor&, int64_t, int64_t,
                                            int64_t, double)>("plimsoll::attention_backward");
  return op;
}

void check(const at::Tensor& qkv, const at::Tensor& documents, const HeadLayout& layout) {
  check_layout("attention", qkv, layout);
  if (documents.is_meta()) return;  // shapes only: nothing to look at
  if (!documents.is_cpu() || documents.scalar_type() != at::kInt || documents.dim() != 1 ||
      documents.size(0) < 1 || !documents.is_contiguous()) {
    fail("attention", "documents is {} on {}: must be int32 [count + 1], contiguous, on CPU",
         describe(documents), documents.device().str());
  }
  const int32_t* d = documents.const_data_ptr<int32_t>();
  const int64_t last = documents.size(0) - 1;
  if (d[0] != 0 || d[last] != qkv.size(0)) {
    fail("attention", "documents go from {} to {}: must go from 0 to N = {}", d[0], d[last],
         qkv.size(0));
  }
  for (int64_t i = 0; i < last; ++i) {
    if (d[i] > d[i + 1]) {
      fail("attention", "documents[{}] = {} is above documents[{}] = {}", i, d[i], i + 1, d[i + 1]);
    }
  }
}

template <auto form>
Two attention_checked(const at::Tensor& qkv, const at::Tensor& documents, int64_t heads,
                      int64_t kv_heads, int64_t head_dim, double scale) {
  check(qkv, documents, {heads, kv_heads, head_dim});
  return form(qkv, documents, heads, kv_heads, head_dim, scale);
}

Two attention_meta(const at::Tensor& qkv, const at::Tensor& documents, int64_t heads,
                   int64_t kv_heads, int64_t head_dim, double) {
  check(qkv, documents, {heads, kv_heads, head_dim});
  return {at::empty({qkv.size(0), heads * head_dim}, qkv.options()),
          at::empty({heads, qkv.size(0)}, qkv.options().dtype(sum_dtype(qkv.scalar_type())))};
}

at::Tensor attention_backward_meta(const at::Tensor&, const at::Tensor& qkv, const at::Tensor&,
                                   const at::Tensor&, const at::Tensor&, int64_t, int64_t, int64_t,
                                   double) {
  return at::empty(qkv.sizes(), qkv.options());
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& qkv,
                               const at::Tensor& documents, int64_t heads, int64_t kv_heads,
                               int64_t head_dim, double scale) {
    BelowAutograd guard;
    auto [o, lse] = attention_op().call(qkv, documents, heads, kv_heads, head_dim, scale);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({qkv, o, lse, documents});
    ctx->mark_non_differentiable({lse});
    ctx->saved_data["layout"] = std::vector<int64_t>{heads, kv_heads, head_dim};
    ctx->saved_data["scale"] = scale;
    return {o, lse};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list out(6);
    if (!grads[0].defined()) return out;
    const auto s = ctx->get_saved_variables();
    const auto layout = ctx->saved_data["layout"].toIntVector();
    {
      BelowAutograd guard;
      out[0] = attention_backward_op().call(grads[0], s[0], s[1], s[2], s[3], layout[0], layout[1],
                                            layout[2], ctx->saved_data["scale"].toDouble());
    }
    return once_differentiable("attention", std::move(out));
  }
};

Two attention_autograd(const at::Tensor& qkv, const at::Tensor& documents, int64_t heads,
                       int64_t kv_heads, int64_t head_dim, double scale) {
  if (needs_grad(qkv)) {
    auto out = AttentionFunction::apply(qkv, documents, heads, kv_heads, head_dim, scale);
    return {out[0], out[1]};
  }
  BelowAutograd guard;
  return attention_op().call(qkv, documents, heads, kv_heads, head_dim, scale);
}

}  // namespace

at::Tensor attention(const at::Tensor& qkv, const at::Tensor& documents, const HeadLayout& layout,
                     std::optional<double> scale) {
  return std::get<0>(
      attention_op().call(qkv, documents, layout.heads, layout.kv_heads, layout.head_dim,
                          scale.value_or(1.0 / std::sqrt(static_cast<double>(layout.head_dim)))));
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "attention(Tensor qkv, Tensor documents, int heads, int kv_heads, int head_dim, float scale) "
      "-> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor d_o, Tensor qkv, Tensor o, Tensor lse, Tensor documents, int "
      "heads, int kv_heads, int head_dim, float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("attention", attention_checked<plain::attention>);
  m.impl("attention_backward", plain::attention_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("attention", attention_checked<fast::attention>);
  m.impl("attention_backward", fast::attention_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_backward", attention_backward_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("attention", attention_autograd);
}

}  // namespace plimsoll::ops
