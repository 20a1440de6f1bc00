#pragma once

// What the CPU forms share: from tensors to pointers and rows.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "plimsoll/ops/cpu/kernels.h"

namespace plimsoll::ops::cpu {

template <class T>
const T* data_of(const at::Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}

template <class T>
T* mutable_data_of(const at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

/// visit(T{}) with the T that stands for dtype, which is one of the three.
template <class Visit>
void with_type(at::ScalarType dtype, Visit visit) {
  if (dtype == at::kBFloat16) return visit(Bf16{});
  if (dtype == at::kFloat) return visit(float{});
  return visit(double{});
}

/// The rows of t along its last dimension; t becomes contiguous if they are not evenly laid out.
inline Rows rows_of(at::Tensor& t) {
  const bool adjacent = t.dim() >= 1 && (t.stride(-1) == 1 || t.size(-1) == 1);
  if (adjacent && t.dim() == 2) return {1, t.stride(0), 0};
  if (adjacent && t.dim() == 3) return {std::max<int64_t>(t.size(1), 1), t.stride(0), t.stride(1)};
  t = t.contiguous();
  return {1, t.size(-1), 0};
}

/// Calls work(begin, end) over 0 .. rows - 1 from several threads; each row costs about `numbers`.
template <class Work>
void over_rows(int64_t rows, int64_t numbers, Work work) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(numbers, 1));
  at::parallel_for(0, rows, grain, work);
}

}  // namespace plimsoll::ops::cpu
