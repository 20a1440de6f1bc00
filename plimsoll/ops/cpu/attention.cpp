// Attention on CPU: our own kernels where they fit, else torch's flash kernel, where runs of
// documents of one length are one batch.
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <tuple>
#include <vector>

#include "plimsoll/ops/cpu/attention_kernels.h"
#include "plimsoll/ops/cpu/tensors.h"
#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"

namespace plimsoll::ops {
namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;

at::Tensor with_dense_rows(const at::Tensor& t) {
  return t.stride(1) == 1 || t.size(1) == 1 ? t : t.contiguous();
}

bool has_kernel(const at::Tensor& qkv, int64_t head_dim) {
  return cpu::attention_fits(head_dim) && qkv.scalar_type() != at::kDouble;
}

/// A piece of work for one thread.
struct Task {
  int64_t first;   // token of the document
  int64_t length;  // of the document
  int64_t head;    // query head forward, key head backward
  int64_t from;    // queries of the document
  int64_t to;
};

/// Every document times `heads`, in pieces of at most `most` queries; the dearest first.
std::vector<Task> tasks_of(const at::Tensor& documents, int64_t heads, int64_t most) {
  const int32_t* d = documents.const_data_ptr<int32_t>();
  std::vector<Task> tasks;
  for (int64_t i = 0; i + 1 < documents.size(0); ++i) {
    const int64_t length = d[i + 1] - d[i];
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t from = 0; from < length; from += most) {
        tasks.push_back({d[i], length, head, from, std::min(length, from + most)});
      }
    }
  }
  auto cost = [](const Task& t) { return t.to * t.to - t.from * t.from; };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const Task& a, const Task& b) { return cost(a) > cost(b); });
  return tasks;
}

/// Tasks write to places of their own, so it does not matter which thread takes which.
template <class Work>
void run(const std::vector<Task>& tasks, Work work) {
  std::atomic<size_t> next{0};
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      for (size_t i = next++; i < tasks.size(); i = next++) work(tasks[i]);
    }
  });
}

template <class T>
void forward_kernels(const at::Tensor& qkv, const at::Tensor& documents, const HeadLayout& l,
                     double scale, const at::Tensor& o, const at::Tensor& lse) {
  const T* x = cpu::data_of<T>(qkv);
  const int64_t group = l.heads / l.kv_heads;
  run(tasks_of(documents, l.heads, 8 * cpu::kAttentionBlock), [&](const Task& t) {
    const T* row = x + t.first * qkv.stride(0);
    cpu::AttentionForward<T> a{};
    a.head_dim = l.head_dim;
    a.length = t.length;
    a.scale = static_cast<float>(scale);
    a.q = row + t.head * l.head_dim;
    a.k = row + (l.heads + t.head / group) * l.head_dim;
    a.v = a.k + l.kv_heads * l.head_dim;
    a.stride = qkv.stride(0);
    a.o_stride = l.heads * l.head_dim;
    a.o = cpu::mutable_data_of<T>(o) + t.first * a.o_stride + t.head * l.head_dim;
    a.lse = cpu::mutable_data_of<float>(lse) + t.head * qkv.size(0) + t.first;
    cpu::attention_forward(a, t.from, t.to);
  });
}

template <class T>
void backward_kernels(const at::Tensor& d_o, const at::Tensor& qkv, const at::Tensor& o,
                      const at::Tensor& lse, const at::Tensor& documents, const HeadLayout& l,
                      double scale, const at::Tensor& d_qkv) {
  const int64_t group = l.heads / l.kv_heads;
  run(tasks_of(documents, l.kv_heads, qkv.size(0)), [&](const Task& t) {
    const int64_t query = t.head * group * l.head_dim;
    const int64_t key = (l.heads + t.head) * l.head_dim, value = key + l.kv_heads * l.head_dim;
    const T* row = cpu::data_of<T>(qkv) + t.first * qkv.stride(0);
    T* d_row = cpu::mutable_data_of<T>(d_qkv) + t.first * d_qkv.stride(0);
    cpu::AttentionBackward<T> a{};
    a.head_dim = l.head_dim;
    a.length = t.length;
    a.group = group;
    a.scale = static_cast<float>(scale);
    a.q = row + query;
    a.k = row + key;
    a.v = row + value;
    a.stride = qkv.stride(0);
    a.o = cpu::data_of<T>(o) + t.first * o.stride(0) + query;
    a.o_stride = o.stride(0);
    a.d_o = cpu::data_of<T>(d_o) + t.first * d_o.stride(0) + query;
    a.d_o_stride = d_o.stride(0);
    a.lse = cpu::data_of<float>(lse) + t.head * group * qkv.size(0) + t.first;
    a.lse_stride = qkv.size(0);
    a.dq = d_row + query;
    a.dk = d_row + key;
    a.dv = d_row + value;
    a.d_stride = d_qkv.stride(0);
    cpu::attention_backward(a);
  });
}

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

at::Tensor lse_of(const at::Tensor& lse, int64_t from, int64_t documents, int64_t length) {
  return lse.narrow(1, from, documents * length).unflatten(1, {documents, length}).transpose(0, 1);
}

void forward_flash(const at::Tensor& qkv, const at::Tensor& documents, const HeadLayout& l,
                   double scale, const at::Tensor& o, const at::Tensor& lse) {
  for_each_run(documents, [&](int64_t from, int64_t count, int64_t length) {
    auto part = [&](int64_t first, int64_t number) {
      return part_of(qkv, from, count, length, first, number, l.head_dim);
    };
    auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
        part(0, l.heads), part(l.heads, l.kv_heads), part(l.heads + l.kv_heads, l.kv_heads), 0.0,
        /*is_causal=*/true, std::nullopt, scale);
    lse_of(lse, from, count, length).copy_(sums);
    part_of(o, from, count, length, 0, l.heads, l.head_dim).copy_(out);
  });
}

void backward_flash(const at::Tensor& d_o, const at::Tensor& qkv, const at::Tensor& o,
                    const at::Tensor& lse, const at::Tensor& documents, const HeadLayout& l,
                    double scale, const at::Tensor& d_qkv) {
  for_each_run(documents, [&](int64_t from, int64_t count, int64_t length) {
    auto part = [&](const at::Tensor& t, int64_t first, int64_t number) {
      return part_of(t, from, count, length, first, number, l.head_dim);
    };
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        part(d_o, 0, l.heads), part(qkv, 0, l.heads), part(qkv, l.heads, l.kv_heads),
        part(qkv, l.heads + l.kv_heads, l.kv_heads), part(o, 0, l.heads),
        lse_of(lse, from, count, length), 0.0, /*is_causal=*/true, std::nullopt, scale);
    part(d_qkv, 0, l.heads).copy_(dq);
    part(d_qkv, l.heads, l.kv_heads).copy_(dk);
    part(d_qkv, l.heads + l.kv_heads, l.kv_heads).copy_(dv);
  });
}

}  // namespace

Two fast::attention(const at::Tensor& qkv_in, const at::Tensor& documents, int64_t heads,
                    int64_t kv_heads, int64_t head_dim, double scale) {
  auto qkv = with_dense_rows(qkv_in);
  const HeadLayout layout{heads, kv_heads, head_dim};
  auto o = at::empty({qkv.size(0), heads * head_dim}, qkv.options());
  auto lse = at::empty({heads, qkv.size(0)}, qkv.options().dtype(sum_dtype(qkv.scalar_type())));
  if (!has_kernel(qkv, head_dim)) {
    forward_flash(qkv, documents, layout, scale, o, lse);
  } else if (qkv.scalar_type() == at::kFloat) {
    forward_kernels<float>(qkv, documents, layout, scale, o, lse);
  } else {
    forward_kernels<cpu::Bf16>(qkv, documents, layout, scale, o, lse);
  }
  return {o, lse};
}

at::Tensor fast::attention_backward(const at::Tensor& d_o_in, const at::Tensor& qkv_in,
                                    const at::Tensor& o_in, const at::Tensor& lse_in,
                                    const at::Tensor& documents, int64_t heads, int64_t kv_heads,
                                    int64_t head_dim, double scale) {
  auto qkv = with_dense_rows(qkv_in), d_o = with_dense_rows(d_o_in), o = with_dense_rows(o_in);
  auto lse = lse_in.contiguous();
  const HeadLayout layout{heads, kv_heads, head_dim};
  auto d_qkv = at::empty(qkv.sizes(), qkv.options());
  if (!has_kernel(qkv, head_dim)) {
    backward_flash(d_o, qkv, o, lse, documents, layout, scale, d_qkv);
  } else if (qkv.scalar_type() == at::kFloat) {
    backward_kernels<float>(d_o, qkv, o, lse, documents, layout, scale, d_qkv);
  } else {
    backward_kernels<cpu::Bf16>(d_o, qkv, o, lse, documents, layout, scale, d_qkv);
  }
  return d_qkv;
}

}  // namespace plimsoll::ops
