// Attention on CPU through torch's flash kernel: runs of documents of one length are one batch.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include <tuple>

#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"

namespace plimsoll::ops {
namespace {

/// visit(first token, documents, length) for each run of documents that are equally long.
template <class Visit>
void for_each_run(const at::Tensor& documents, Visit visit) {
  const int32_t* d = documents.const_data_ptr<int32_t>();
  const int64_t count = documents.size(0) - 1;
  for (int64_t i = 0; i < count;) {
    const int64_t length = d[i + 1] - d[i];
    int64_t end = i + 1;
    while (end < count && d[end + 1] - d[end] == length) ++end;
    if (length > 0) visit(d[i], end - i, length);
    i = end;
  }
}

/// `heads` heads from number `first` of the tokens of a run: [documents, heads, length, head_dim].
at::Tensor part_of(const at::Tensor& fused, int64_t from, int64_t documents, int64_t length,
                   int64_t first, int64_t heads, int64_t head_dim) {
  return fused.narrow(0, from, documents * length)
      .narrow(1, first * head_dim, heads * head_dim)
      .unflatten(0, {documents, length})
      .unflatten(2, {heads, head_dim})
      .transpose(1, 2);
}

at::Tensor with_dense_rows(const at::Tensor& t) {
  return t.stride(1) == 1 || t.size(1) == 1 ? t : t.contiguous();
}

at::Tensor lse_of(const at::Tensor& lse, int64_t from, int64_t documents, int64_t length) {
  return lse.narrow(1, from, documents * length).unflatten(1, {documents, length}).transpose(0, 1);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> fast::attention(const at::Tensor& qkv_in,
                                                   const at::Tensor& documents, int64_t heads,
                                                   int64_t kv_heads, int64_t head_dim,
                                                   double scale) {
  auto qkv = with_dense_rows(qkv_in);
  const int64_t n = qkv.size(0);
  auto o = at::empty({n, heads * head_dim}, qkv.options());
  auto lse = at::empty({heads, n}, qkv.options().dtype(sum_dtype(qkv.scalar_type())));
  for_each_run(documents, [&](int64_t from, int64_t count, int64_t length) {
    auto part = [&](int64_t first, int64_t number) {
      return part_of(qkv, from, count, length, first, number, head_dim);
    };
    auto [out, l] = at::_scaled_dot_product_flash_attention_for_cpu(
        part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads), 0.0,
        /*is_causal=*/true, std::nullopt, scale);
    lse_of(lse, from, count, length).copy_(l);
    auto rows = out.transpose(1, 2);  // as the kernel lays it out
    if (count * length == n && rows.is_contiguous()) {
      o = rows.view({n, heads * head_dim});
    } else {
      part_of(o, from, count, length, 0, heads, head_dim).copy_(out);
    }
  });
  return {o, lse};
}

at::Tensor fast::attention_backward(const at::Tensor& d_o_in, const at::Tensor& qkv_in,
                                    const at::Tensor& o_in, const at::Tensor& lse,
                                    const at::Tensor& documents, int64_t heads, int64_t kv_heads,
                                    int64_t head_dim, double scale) {
  auto qkv = with_dense_rows(qkv_in), d_o = with_dense_rows(d_o_in), o = with_dense_rows(o_in);
  auto d_qkv = at::empty(qkv.sizes(), qkv.options());
  for_each_run(documents, [&](int64_t from, int64_t count, int64_t length) {
    auto part = [&](const at::Tensor& t, int64_t first, int64_t number) {
      return part_of(t, from, count, length, first, number, head_dim);
    };
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        part(d_o, 0, heads), part(qkv, 0, heads), part(qkv, heads, kv_heads),
        part(qkv, heads + kv_heads, kv_heads), part(o, 0, heads), lse_of(lse, from, count, length),
        0.0, /*is_causal=*/true, std::nullopt, scale);
    part(d_qkv, 0, heads).copy_(dq);
    part(d_qkv, heads, kv_heads).copy_(dk);
    part(d_qkv, heads + kv_heads, kv_heads).copy_(dv);
  });
  return d_qkv;
}

}  // namespace plimsoll::ops
