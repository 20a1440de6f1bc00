#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <vector>

#include "plimsoll/ops/cpu/tensors.h"
#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"

namespace plimsoll::ops {
namespace {

using namespace cpu;
using OptionalDtype = std::optional<at::ScalarType>;

/// Gradients of weights are summed over blocks of so many rows, then over the blocks in order: the
/// bits do not depend on the number of threads.
constexpr int64_t kBlockRows = 256;

/// The sum of partial[blocks, d] over the blocks, in double.
template <class S>
at::Tensor sum_blocks(const S* partial, int64_t blocks, int64_t stride, int64_t d,
                      at::ScalarType dtype, const at::TensorOptions& options) {
  std::vector<double> sums(static_cast<size_t>(d));
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t j = 0; j < d; ++j) sums[static_cast<size_t>(j)] += partial[b * stride + j];
  }
  auto out = at::empty({d}, options.dtype(at::kDouble));
  std::memcpy(out.mutable_data_ptr(), sums.data(), sums.size() * sizeof(double));
  return out.to(dtype);
}

int64_t blocks_of(int64_t rows, int64_t block) {
  return (rows + block - 1) / block;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm(at::Tensor x, const at::Tensor* residual,
                                                    const at::Tensor& weight, double eps) {
  const int64_t d = weight.size(0);
  const auto sums = sum_dtype(x.scalar_type());
  auto w = weight.to(sums).contiguous();
  auto y = at::empty(x.sizes(), x.options());
  auto rstd = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(sums));
  at::Tensor sum, other;
  if (residual != nullptr) {
    x = x.contiguous();
    other = residual->contiguous();
    sum = at::empty(x.sizes(), x.options());
  }
  const Rows rows = rows_of(x);
  with_type(x.scalar_type(), [&](auto t) {
    using T = decltype(t);
    NormForward<T> a{};
    a.d = d;
    a.eps = static_cast<SumOf<T>>(eps);
    a.x = data_of<T>(x);
    a.x_rows = rows;
    if (residual != nullptr) {
      a.residual = data_of<T>(other);
      a.sum = mutable_data_of<T>(sum);
    }
    a.weight = data_of<SumOf<T>>(w);
    a.y = mutable_data_of<T>(y);
    a.y_rows = {1, d, 0};
    a.rstd = mutable_data_of<SumOf<T>>(rstd);
    a.rstd_rows = {1, 1, 0};
    over_rows(rstd.numel(), d, [&](int64_t b, int64_t e) { norm_forward(a, b, e); });
  });
  return {sum, y, rstd};
}

/// The parts of a fused buffer that are normed: `heads` heads from number `from` of each row.
Rows head_rows(const at::Tensor& t, int64_t heads, int64_t head_dim) {
  return {heads, t.stride(0), head_dim};
}

at::Tensor with_dense_rows(const at::Tensor& t) {
  return t.stride(1) == 1 || t.size(1) == 1 ? t : t.contiguous();
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> fast::rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                                  double eps) {
  auto [sum, y, rstd] = norm(x, nullptr, weight, eps);
  return {y, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fast::add_rms_norm(const at::Tensor& x,
                                                                  const at::Tensor& residual,
                                                                  const at::Tensor& weight,
                                                                  double eps) {
  return norm(x, &residual, weight, eps);
}

std::tuple<at::Tensor, at::Tensor> fast::rms_norm_backward(
    const at::Tensor& dy_in, const at::Tensor& x_in, const at::Tensor& weight,
    const at::Tensor& rstd_in, const OptionalTensor& d_sum_in, OptionalDtype grad_dtype) {
  auto dy = dy_in, x = x_in, rstd = rstd_in.contiguous();
  auto d_sum = d_sum_in ? *d_sum_in : at::Tensor();
  const int64_t d = weight.size(0), rows = rstd.numel(), blocks = blocks_of(rows, kBlockRows);
  const auto sums = sum_dtype(x.scalar_type());
  auto w = weight.to(sums).contiguous();
  auto dx = at::empty(x.sizes(), x.options());
  auto partial = at::zeros({grad_dtype ? blocks : 0, d}, x.options().dtype(sums));
  at::Tensor dweight;
  const Rows x_rows = rows_of(x), dy_rows = rows_of(dy);
  const Rows d_sum_rows = d_sum.defined() ? rows_of(d_sum) : Rows{};
  with_type(x.scalar_type(), [&](auto t) {
    using T = decltype(t);
    using S = SumOf<T>;
    NormBackward<T> a{};
    a.d = d;
    a.dy = data_of<T>(dy);
    a.dy_rows = dy_rows;
    a.x = data_of<T>(x);
    a.x_rows = x_rows;
    a.rstd = data_of<S>(rstd);
    a.rstd_rows = {1, 1, 0};
    a.weight = data_of<S>(w);
    if (d_sum.defined()) {
      a.d_sum = data_of<T>(d_sum);
      a.d_sum_rows = d_sum_rows;
    }
    a.dx = mutable_data_of<T>(dx);
    a.dx_rows = {1, d, 0};
    S* sums_of = mutable_data_of<S>(partial);
    over_rows(blocks, kBlockRows * d, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        norm_backward(a, i * kBlockRows, std::min(rows, (i + 1) * kBlockRows),
                      grad_dtype ? sums_of + i * d : nullptr);
      }
    });
    if (grad_dtype) dweight = sum_blocks(sums_of, blocks, d, d, *grad_dtype, x.options());
  });
  return {dx, dweight};
}

std::tuple<at::Tensor, at::Tensor> fast::qk_norm(const at::Tensor& qkv_in,
                                                 const at::Tensor& q_weight,
                                                 const at::Tensor& k_weight, int64_t heads,
                                                 int64_t kv_heads, int64_t head_dim, double eps) {
  auto qkv = with_dense_rows(qkv_in);
  const int64_t n = qkv.size(0), width = qkv.size(1), normed = heads + kv_heads;
  const auto sums = sum_dtype(qkv.scalar_type());
  auto qw = q_weight.to(sums).contiguous(), kw = k_weight.to(sums).contiguous();
  auto out = at::empty(qkv.sizes(), qkv.options());
  auto rstd = at::empty({n, normed}, qkv.options().dtype(sums));
  with_type(qkv.scalar_type(), [&](auto t) {
    using T = decltype(t);
    using S = SumOf<T>;
    auto part = [&](int64_t first, int64_t count, const at::Tensor& weight) {
      NormForward<T> a{};
      a.d = head_dim;
      a.eps = static_cast<S>(eps);
      a.x = data_of<T>(qkv) + first * head_dim;
      a.x_rows = head_rows(qkv, count, head_dim);
      a.weight = data_of<S>(weight);
      a.y = mutable_data_of<T>(out) + first * head_dim;
      a.y_rows = head_rows(out, count, head_dim);
      a.rstd = mutable_data_of<S>(rstd) + first;
      a.rstd_rows = {count, normed, 1};
      return a;
    };
    const auto q = part(0, heads, qw), k = part(heads, kv_heads, kw);
    const int64_t rest = width - normed * head_dim;
    over_rows(n, width, [&](int64_t b, int64_t e) {
      norm_forward(q, b * heads, e * heads);
      norm_forward(k, b * kv_heads, e * kv_heads);
      for (int64_t i = b; i < e; ++i) {
        std::memcpy(mutable_data_of<T>(out) + i * width + normed * head_dim,
                    data_of<T>(qkv) + i * qkv.stride(0) + normed * head_dim,
                    static_cast<size_t>(rest) * sizeof(T));
      }
    });
  });
  return {out, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fast::qk_norm_backward(
    const at::Tensor& dy_in, const at::Tensor& qkv_in, const at::Tensor& q_weight,
    const at::Tensor& k_weight, const at::Tensor& rstd_in, int64_t heads, int64_t kv_heads,
    int64_t head_dim, OptionalDtype grad_dtype) {
  auto qkv = with_dense_rows(qkv_in), dy = with_dense_rows(dy_in), rstd = rstd_in.contiguous();
  const int64_t n = qkv.size(0), width = qkv.size(1), normed = heads + kv_heads;
  const int64_t tokens = std::max<int64_t>(1, kBlockRows / normed), blocks = blocks_of(n, tokens);
  const auto sums = sum_dtype(qkv.scalar_type());
  auto qw = q_weight.to(sums).contiguous(), kw = k_weight.to(sums).contiguous();
  auto dx = at::empty(qkv.sizes(), qkv.options());
  auto partial = at::zeros({grad_dtype ? blocks : 0, 2, head_dim}, qkv.options().dtype(sums));
  at::Tensor dq_weight, dk_weight;
  with_type(qkv.scalar_type(), [&](auto t) {
    using T = decltype(t);
    using S = SumOf<T>;
    auto part = [&](int64_t first, int64_t count, const at::Tensor& weight) {
      NormBackward<T> a{};
      a.d = head_dim;
      a.dy = data_of<T>(dy) + first * head_dim;
      a.dy_rows = head_rows(dy, count, head_dim);
      a.x = data_of<T>(qkv) + first * head_dim;
      a.x_rows = head_rows(qkv, count, head_dim);
      a.rstd = data_of<S>(rstd) + first;
      a.rstd_rows = {count, normed, 1};
      a.weight = data_of<S>(weight);
      a.dx = mutable_data_of<T>(dx) + first * head_dim;
      a.dx_rows = head_rows(dx, count, head_dim);
      return a;
    };
    const auto q = part(0, heads, qw), k = part(heads, kv_heads, kw);
    const int64_t rest = width - normed * head_dim;
    S* sums_of = mutable_data_of<S>(partial);
    over_rows(blocks, tokens * width, [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) {
        const int64_t b = block * tokens, e = std::min(n, b + tokens);
        S* own = grad_dtype ? sums_of + block * 2 * head_dim : nullptr;
        norm_backward(q, b * heads, e * heads, own);
        norm_backward(k, b * kv_heads, e * kv_heads, own == nullptr ? own : own + head_dim);
        for (int64_t i = b; i < e; ++i) {
          std::memcpy(mutable_data_of<T>(dx) + i * width + normed * head_dim,
                      data_of<T>(dy) + i * dy.stride(0) + normed * head_dim,
                      static_cast<size_t>(rest) * sizeof(T));
        }
      }
    });
    if (!grad_dtype) return;
    const auto options = qkv.options();
    dq_weight = sum_blocks(sums_of, blocks, 2 * head_dim, head_dim, *grad_dtype, options);
    dk_weight =
        sum_blocks(sums_of + head_dim, blocks, 2 * head_dim, head_dim, *grad_dtype, options);
  });
  return {dx, dq_weight, dk_weight};
}

}  // namespace plimsoll::ops
