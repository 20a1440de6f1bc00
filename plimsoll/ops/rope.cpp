#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using RopeSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t,
                                 int64_t, int64_t, bool);

auto& rope_op() {
  static auto op = find_operator<RopeSignature>("plimsoll::rope");
  return op;
}

auto& rope_backward_op() {
  static auto op = find_operator<RopeSignature>("plimsoll::rope_backward");
  return op;
}

void check(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
           const HeadLayout& layout) {
  check_layout("rope", qkv, layout);
  check_ids("rope", "positions", positions, qkv.size(0));
  if (layout.head_dim % 2 != 0) fail("rope", "head_dim {} is odd", layout.head_dim);
  if (table.scalar_type() != at::kFloat || table.dim() != 3 || table.size(1) != 2 ||
      table.size(2) != layout.head_dim / 2) {
    fail("rope", "table is {}: must be fp32 [limit, 2, {}]", describe(table), layout.head_dim / 2);
  }
}

template <auto form>
at::Tensor rope_checked(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                        int64_t heads, int64_t kv_heads, int64_t head_dim, bool interleaved) {
  check(qkv, table, positions, {heads, kv_heads, head_dim});
  return form(qkv, table, positions, heads, kv_heads, head_dim, interleaved);
}

at::Tensor rope_meta(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                     int64_t heads, int64_t kv_heads, int64_t head_dim, bool) {
  check(qkv, table, positions, {heads, kv_heads, head_dim});
  return at::empty(qkv.sizes(), qkv.options());
}

/// A contiguous copy of qkv whose query and key heads are rotated by angles of sign `direction`.
at::Tensor rotated(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                   const HeadLayout& layout, bool interleaved, double direction) {
  const int64_t n = qkv.size(0), turned = layout.heads + layout.kv_heads, h = layout.head_dim;
  const auto sums = sum_dtype(qkv.scalar_type());
  auto rows = at::index_select(table, 0, positions).to(sums).unsqueeze(2);  // [n, 2, 1, h/2]
  auto c = rows.select(1, 0), s = rows.select(1, 1) * direction;
  auto out = at::empty(qkv.sizes(), qkv.options());
  out.copy_(qkv);
  auto parts = out.narrow(1, 0, turned * h).view({n, turned, h});
  auto a = interleaved ? parts.slice(2, 0, h, 2) : parts.narrow(2, 0, h / 2);
  auto b = interleaved ? parts.slice(2, 1, h, 2) : parts.narrow(2, h / 2, h / 2);
  auto x = a.to(sums, /*non_blocking=*/false, /*copy=*/true);
  auto y = b.to(sums, /*non_blocking=*/false, /*copy=*/true);
  a.copy_(x * c - y * s);
  b.copy_(x * s + y * c);
  return out;
}

struct RopeFunction : torch::autograd::Function<RopeFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const at::Tensor& table,
                            const at::Tensor& positions, int64_t heads, int64_t kv_heads,
                            int64_t head_dim, bool interleaved) {
    BelowAutograd guard;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({table, positions});
    ctx->saved_data["layout"] = std::vector<int64_t>{heads, kv_heads, head_dim};
    ctx->saved_data["interleaved"] = interleaved;
    return rope_op().call(qkv, table, positions, heads, kv_heads, head_dim, interleaved);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list out(7);
    if (!grads[0].defined()) return out;
    const auto saved = ctx->get_saved_variables();
    const auto layout = ctx->saved_data["layout"].toIntVector();
    {
      BelowAutograd guard;
      out[0] = rope_backward_op().call(grads[0], saved[0], saved[1], layout[0], layout[1],
                                       layout[2], ctx->saved_data["interleaved"].toBool());
    }
    return once_differentiable("rope", std::move(out));
  }
};

at::Tensor rope_autograd(const at::Tensor& qkv, const at::Tensor& table,
                         const at::Tensor& positions, int64_t heads, int64_t kv_heads,
                         int64_t head_dim, bool interleaved) {
  if (needs_grad(qkv)) {
    return RopeFunction::apply(qkv, table, positions, heads, kv_heads, head_dim, interleaved);
  }
  BelowAutograd guard;
  return rope_op().call(qkv, table, positions, heads, kv_heads, head_dim, interleaved);
}

double scaled_frequency(double frequency, const LlamaRopeScaling& s) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double limit = static_cast<double>(s.original_limit);
  if (wavelength > limit / s.low_factor) return frequency / s.factor;
  if (wavelength < limit / s.high_factor) return frequency;
  const double t = (limit / wavelength - s.low_factor) / (s.high_factor - s.low_factor);
  return (1 - t) * frequency / s.factor + t * frequency;
}

}  // namespace

void check_layout(const char* op, const at::Tensor& qkv, const HeadLayout& layout) {
  check_float(op, "qkv", qkv);
  if (layout.heads < 1 || layout.kv_heads < 1 || layout.head_dim < 1 ||
      layout.heads % layout.kv_heads != 0) {
    fail(op,
         "{} heads, {} kv heads, head_dim {}: heads must be a multiple of kv heads, all above 0",
         layout.heads, layout.kv_heads, layout.head_dim);
  }
  if (qkv.dim() != 2 || qkv.size(1) != layout.width()) {
    fail(op, "qkv is {}: must be [N, {}] ({} + 2 * {} heads of {})", describe(qkv), layout.width(),
         layout.heads, layout.kv_heads, layout.head_dim);
  }
}

at::Tensor rope_table(int64_t head_dim, int64_t limit, double theta,
                      const std::optional<LlamaRopeScaling>& scaling) {
  if (head_dim < 2 || head_dim % 2 != 0 || limit < 1 || !(theta > 0) || !std::isfinite(theta)) {
    fail("rope_table", "head_dim {}, limit {}, theta {}: head_dim must be even, all above 0",
         head_dim, limit, theta);
  }
  const int64_t half = head_dim / 2;
  auto table = at::empty({limit, 2, half}, at::kFloat);
  float* out = table.mutable_data_ptr<float>();
  for (int64_t j = 0; j < half; ++j) {
    double frequency =
        std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    if (scaling) frequency = scaled_frequency(frequency, *scaling);
    for (int64_t p = 0; p < limit; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      out[(2 * p) * half + j] = static_cast<float>(std::cos(angle));
      out[(2 * p + 1) * half + j] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

at::Tensor plain::rope(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                       int64_t heads, int64_t kv_heads, int64_t head_dim, bool interleaved) {
  return rotated(qkv, table, positions, {heads, kv_heads, head_dim}, interleaved, 1);
}

at::Tensor plain::rope_backward(const at::Tensor& dy, const at::Tensor& table,
                                const at::Tensor& positions, int64_t heads, int64_t kv_heads,
                                int64_t head_dim, bool interleaved) {
  return rotated(dy, table, positions, {heads, kv_heads, head_dim}, interleaved, -1);
}

at::Tensor rope(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                const HeadLayout& layout, RopePairs pairs) {
  return rope_op().call(qkv, table, positions, layout.heads, layout.kv_heads, layout.head_dim,
                        pairs == RopePairs::kInterleaved);
}

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "rope(Tensor qkv, Tensor table, Tensor positions, int heads, int kv_heads, int head_dim, "
      "bool interleaved) -> Tensor");
  m.def(
      "rope_backward(Tensor dy, Tensor table, Tensor positions, int heads, int kv_heads, int "
      "head_dim, bool interleaved) -> Tensor");
}

TORCH_LIBRARY_IMPL(plimsoll, CompositeExplicitAutograd, m) {
  m.impl("rope", rope_checked<plain::rope>);
  m.impl("rope_backward", plain::rope_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("rope", rope_checked<fast::rope>);
  m.impl("rope_backward", fast::rope_backward);
}

TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("rope", rope_meta);
  m.impl("rope_backward", rope_meta);
}

TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("rope", rope_autograd);
}

}  // namespace plimsoll::ops
