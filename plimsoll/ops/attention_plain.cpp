// The plain form of attention: documents one after the other, blocks of queries against all keys up
// to their last, so that at most kBlock x document scores a head exist at once.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kBlock = 256;

/// The heads of one fused buffer as [N, count, head_dim] views.
struct Parts {
  Parts(const at::Tensor& fused, int64_t heads, int64_t kv_heads, int64_t h) {
    const int64_t n = fused.size(0);
    auto part = [&](int64_t from, int64_t count) {
      return fused.narrow(1, from * h, count * h).view({n, count, h});
    };
    q = part(0, heads);
    k = part(heads, kv_heads);
    v = part(heads + kv_heads, kv_heads);
  }
  at::Tensor q, k, v;
};

/// Rows [from, from + count) of [N, heads, h] as [kv_heads, group * count, h]: the query heads that
/// share a key head stand one below the other.
at::Tensor by_group(const at::Tensor& q, int64_t from, int64_t count, int64_t kv_heads) {
  const int64_t group = q.size(1) / kv_heads, h = q.size(2);
  return q.narrow(0, from, count)
      .reshape({count, kv_heads, group, h})
      .permute({1, 2, 0, 3})
      .reshape({kv_heads, group * count, h});
}

/// The way back: [kv_heads, group * count, h] as [count, heads, h].
at::Tensor by_token(const at::Tensor& t, int64_t count) {
  const int64_t kv_heads = t.size(0), group = t.size(1) / count, h = t.size(2);
  return t.view({kv_heads, group, count, h})
      .permute({2, 0, 1, 3})
      .reshape({count, kv_heads * group, h});
}

/// Scaled scores [kv_heads, group * count, to] of queries from .. from + count - 1 against keys
/// 0 .. to - 1 (to = from + count, all relative to the document); -inf above the diagonal.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& keys, int64_t from, int64_t count,
                     double scale) {
  const int64_t to = keys.size(1), rows = q.size(1);
  auto s = at::bmm(q, keys.transpose(1, 2)).to(sum_dtype(q.scalar_type())) * scale;
  auto row = at::arange(from, from + count, q.options().dtype(at::kLong)).unsqueeze(1);
  auto column = at::arange(to, q.options().dtype(at::kLong)).unsqueeze(0);
  return s.view({q.size(0), rows / count, count, to})
      .masked_fill_(column > row, -std::numeric_limits<double>::infinity())
      .view({q.size(0), rows, to});
}

template <class Visit>
void for_each_block(const at::Tensor& documents, Visit visit) {
  const int32_t* d = documents.const_data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < documents.size(0); ++i) {
    for (int64_t from = d[i]; from < d[i + 1]; from += kBlock) {
      visit(d[i], from, std::min<int64_t>(kBlock, d[i + 1] - from));
    }
  }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> plain::attention(const at::Tensor& qkv,
                                                    const at::Tensor& documents, int64_t heads,
                                                    int64_t kv_heads, int64_t head_dim,
                                                    double scale) {
  const int64_t n = qkv.size(0);
  const auto sums = sum_dtype(qkv.scalar_type());
  auto o = at::empty({n, heads, head_dim}, qkv.options());
  auto lse = at::empty({heads, n}, qkv.options().dtype(sums));
  const Parts parts(qkv, heads, kv_heads, head_dim);
  for_each_block(documents, [&](int64_t start, int64_t from, int64_t count) {
    const int64_t to = from + count - start;
    auto q = by_group(parts.q, from, count, kv_heads);
    auto k = parts.k.narrow(0, start, to).transpose(0, 1);
    auto v = parts.v.narrow(0, start, to).transpose(0, 1);
    auto s = scores_of(q, k, from - start, count, scale);
    auto l = at::logsumexp(s, {-1}, /*keepdim=*/true);
    auto p = at::exp(s - l).to(qkv.scalar_type());
    o.narrow(0, from, count).copy_(by_token(at::bmm(p, v), count));
    lse.narrow(1, from, count).copy_(l.view({heads, count}));
  });
  return {o.view({n, heads * head_dim}), lse};
}

at::Tensor plain::attention_backward(const at::Tensor& d_o, const at::Tensor& qkv,
                                     const at::Tensor& o, const at::Tensor& lse,
                                     const at::Tensor& documents, int64_t heads, int64_t kv_heads,
                                     int64_t head_dim, double scale) {
  const int64_t n = qkv.size(0);
  const auto dtype = qkv.scalar_type();
  const auto sums = sum_dtype(dtype);
  auto d_qkv = at::zeros(qkv.sizes(), qkv.options().dtype(sums));
  const Parts parts(qkv, heads, kv_heads, head_dim);
  const Parts grads(d_qkv, heads, kv_heads, head_dim);
  auto d_o3 = d_o.reshape({n, heads, head_dim}), o3 = o.reshape({n, heads, head_dim});
  for_each_block(documents, [&](int64_t start, int64_t from, int64_t count) {
    const int64_t to = from + count - start;
    auto q = by_group(parts.q, from, count, kv_heads);
    auto g = by_group(d_o3, from, count, kv_heads);
    auto k = parts.k.narrow(0, start, to).transpose(0, 1);
    auto v = parts.v.narrow(0, start, to).transpose(0, 1);
    auto l = lse.narrow(1, from, count).reshape({kv_heads, -1, 1});
    auto p = at::exp(scores_of(q, k, from - start, count, scale) - l);
    auto delta = at::sum(g.to(sums) * by_group(o3, from, count, kv_heads).to(sums), {-1},
                         /*keepdim=*/true);
    auto d_p = at::bmm(g, v.transpose(1, 2)).to(sums);
    auto d_s = (p * (d_p - delta) * scale).to(dtype);
    grads.q.narrow(0, from, count).copy_(by_token(at::bmm(d_s, k), count));
    grads.k.narrow(0, start, to).transpose(0, 1).add_(at::bmm(d_s.transpose(1, 2), q));
    grads.v.narrow(0, start, to).transpose(0, 1).add_(at::bmm(p.to(dtype).transpose(1, 2), g));
  });
  return d_qkv.to(dtype);
}

}  // namespace plimsoll::ops
