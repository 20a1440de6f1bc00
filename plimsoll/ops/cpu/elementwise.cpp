#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "plimsoll/ops/cpu/tensors.h"
#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/linear_cross_entropy.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using namespace cpu;
using OptionalDtype = std::optional<at::ScalarType>;

/// int64, contiguous; throws Error naming the first that is outside 0 .. limit - 1 and not
/// `except`.
at::Tensor checked_ids(const char* op, const char* name, const at::Tensor& ids, int64_t limit,
                       int64_t except = -1) {
  auto wide = ids.to(at::kLong).contiguous();
  const int64_t* p = wide.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    if ((p[i] < 0 || p[i] >= limit) && (except == -1 || p[i] != except)) {
      fail(op, "{}[{}] is {}: must be in 0 .. {}", name, i, p[i], limit - 1);
    }
  }
  return wide;
}

at::Tensor with_dense_rows(const at::Tensor& t) {
  return t.stride(1) == 1 || t.size(1) == 1 ? t : t.contiguous();
}

at::Tensor turned(const at::Tensor& qkv_in, const at::Tensor& table_in, const at::Tensor& positions,
                  const HeadLayout& layout, bool interleaved, int direction) {
  auto qkv = with_dense_rows(qkv_in), table = table_in.contiguous();
  auto places = checked_ids("rope", "positions", positions, table.size(0));
  auto out = at::empty(qkv.sizes(), qkv.options());
  with_type(qkv.scalar_type(), [&](auto t) {
    using T = decltype(t);
    const cpu::Rope<T> a{layout.heads + layout.kv_heads,
                         layout.width(),
                         layout.head_dim / 2,
                         interleaved,
                         static_cast<SumOf<T>>(direction),
                         data_of<T>(qkv),
                         qkv.stride(0),
                         mutable_data_of<T>(out)};
    over_rows(qkv.size(0), layout.width(), [&](int64_t b, int64_t e) {
      cpu::rope(a, table.const_data_ptr<float>(), places.const_data_ptr<int64_t>(), b, e);
    });
  });
  return out;
}

at::Tensor softmax(at::Tensor& logits, const at::Tensor& targets, bool need_grad) {
  const int64_t n = logits.size(0), v = logits.size(1);
  const int64_t* target = targets.const_data_ptr<int64_t>();
  std::vector<double> losses(static_cast<size_t>(n));
  with_type(logits.scalar_type(), [&](auto t) {
    using T = decltype(t);
    T* z = mutable_data_of<T>(logits);
    over_rows(n, v, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        if (target[i] != kIgnoredTarget) {
          losses[static_cast<size_t>(i)] = softmax_loss(z + i * v, v, target[i], need_grad);
        } else if (need_grad) {
          std::memset(static_cast<void*>(z + i * v), 0, static_cast<size_t>(v) * sizeof(T));
        }
      }
    });
  });
  double sum = 0;
  for (double loss : losses) sum += loss;
  auto out = at::empty({}, at::kDouble);
  *out.mutable_data_ptr<double>() = sum;
  return out.to(sum_dtype(logits.scalar_type()));
}

}  // namespace

at::Tensor fast::rope(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                      int64_t heads, int64_t kv_heads, int64_t head_dim, bool interleaved) {
  if (head_dim / 2 > kMostHalf) {
    return plain::rope(qkv, table, positions, heads, kv_heads, head_dim, interleaved);
  }
  return turned(qkv, table, positions, {heads, kv_heads, head_dim}, interleaved, 1);
}

at::Tensor fast::rope_backward(const at::Tensor& dy, const at::Tensor& table,
                               const at::Tensor& positions, int64_t heads, int64_t kv_heads,
                               int64_t head_dim, bool interleaved) {
  if (head_dim / 2 > kMostHalf) {
    return plain::rope_backward(dy, table, positions, heads, kv_heads, head_dim, interleaved);
  }
  return turned(dy, table, positions, {heads, kv_heads, head_dim}, interleaved, -1);
}

at::Tensor fast::swiglu(const at::Tensor& gate_up_in) {
  auto gate_up = with_dense_rows(gate_up_in);
  const int64_t n = gate_up.size(0), f = gate_up.size(1) / 2;
  auto out = at::empty({n, f}, gate_up.options());
  with_type(gate_up.scalar_type(), [&](auto t) {
    using T = decltype(t);
    const T* x = data_of<T>(gate_up);
    T* y = mutable_data_of<T>(out);
    over_rows(n, f, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const T* gate = x + i * gate_up.stride(0);
        cpu::swiglu(gate, gate + f, y + i * f, f);
      }
    });
  });
  return out;
}

at::Tensor fast::swiglu_backward(const at::Tensor& dy_in, const at::Tensor& gate_up_in) {
  auto gate_up = with_dense_rows(gate_up_in), dy = with_dense_rows(dy_in);
  const int64_t n = gate_up.size(0), f = gate_up.size(1) / 2;
  auto out = at::empty(gate_up.sizes(), gate_up.options());
  with_type(gate_up.scalar_type(), [&](auto t) {
    using T = decltype(t);
    const T* x = data_of<T>(gate_up);
    const T* g = data_of<T>(dy);
    T* y = mutable_data_of<T>(out);
    over_rows(n, 2 * f, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const T* gate = x + i * gate_up.stride(0);
        T* d_gate = y + i * 2 * f;
        cpu::swiglu_backward(g + i * dy.stride(0), gate, gate + f, d_gate, d_gate + f, f);
      }
    });
  });
  return out;
}

at::Tensor fast::embedding(const at::Tensor& ids, const at::Tensor& weight,
                           const OptionalTensor& compute) {
  auto rows = compute.value_or(weight).contiguous();
  auto places = checked_ids("embedding", "ids", ids, rows.size(0));
  const int64_t n = places.numel(), d = rows.size(1);
  auto out = at::empty({n, d}, rows.options());
  const size_t bytes = static_cast<size_t>(d) * rows.element_size();
  const int64_t* id = places.const_data_ptr<int64_t>();
  const char* from = data_of<char>(rows);
  char* to = mutable_data_of<char>(out);
  over_rows(n, d, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      std::memcpy(to + static_cast<size_t>(i) * bytes, from + static_cast<size_t>(id[i]) * bytes,
                  bytes);
    }
  });
  return out;
}

at::Tensor fast::embedding_backward(const at::Tensor& dy_in, const at::Tensor& ids,
                                    int64_t vocabulary, at::ScalarType grad_dtype) {
  auto dy = with_dense_rows(dy_in);
  auto places = checked_ids("embedding_backward", "ids", ids, vocabulary);
  const int64_t n = dy.size(0), d = dy.size(1);
  auto grad = at::zeros({vocabulary, d}, dy.options().dtype(sum_dtype(dy.scalar_type())));
  const int64_t* id = places.const_data_ptr<int64_t>();
  // Threads share out the columns, so each sum goes in the order of the tokens.
  constexpr int64_t kColumns = 32;
  with_type(dy.scalar_type(), [&](auto t) {
    using T = decltype(t);
    const T* from = data_of<T>(dy);
    auto* to = mutable_data_of<SumOf<T>>(grad);
    over_rows((d + kColumns - 1) / kColumns, n * kColumns, [&](int64_t b, int64_t e) {
      const int64_t first = b * kColumns, count = std::min(d, e * kColumns) - first;
      for (int64_t i = 0; i < n; ++i) {
        add_to(to + id[i] * d + first, from + i * dy.stride(0) + first, count);
      }
    });
  });
  return grad.to(grad_dtype);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fast::linear_cross_entropy_forward(
    const at::Tensor& h, const at::Tensor& weight, const OptionalTensor& compute,
    const at::Tensor& targets, int64_t chunk_rows, bool need_dh, OptionalDtype grad_dtype) {
  auto checked =
      checked_ids("linear_cross_entropy", "targets", targets, weight.size(0), kIgnoredTarget);
  return chunked_loss(h, weight, compute, checked, chunk_rows, need_dh, grad_dtype, softmax);
}

}  // namespace plimsoll::ops
