#include "plimsoll/ops/cpu/kernels.h"

namespace plimsoll::ops::cpu {
namespace {

template <class T>
PLIMSOLL_INLINE void forward_rows(const NormForward<T>& a, int64_t begin, int64_t end) {
  using S = SumOf<T>;
  const int64_t d = a.d;
  const S* __restrict weight = a.weight;
  for (int64_t r = begin; r < end; ++r) {
    const T* x = a.x + a.x_rows.at(r);
    T* __restrict y = a.y + a.y_rows.at(r);
    S squares = 0;
    if (a.residual != nullptr) {
      const T* __restrict other = x;
      const T* __restrict residual = a.residual + a.x_rows.at(r);
      T* __restrict sum = a.sum + a.x_rows.at(r);
#pragma omp simd reduction(+ : squares)
      for (int64_t j = 0; j < d; ++j) {
        T rounded;
        store(rounded, load(other[j]) + load(residual[j]));
        sum[j] = rounded;
        squares += load(rounded) * load(rounded);
      }
      x = sum;
    } else {
#pragma omp simd reduction(+ : squares)
      for (int64_t j = 0; j < d; ++j) squares += load(x[j]) * load(x[j]);
    }
    const S rstd = 1 / std::sqrt(squares / static_cast<S>(d) + a.eps);
    a.rstd[a.rstd_rows.at(r)] = rstd;
#pragma omp simd
    for (int64_t j = 0; j < d; ++j) store(y[j], load(x[j]) * rstd * weight[j]);
  }
}

template <class T>
PLIMSOLL_INLINE void backward_rows(const NormBackward<T>& a, int64_t begin, int64_t end,
                                   SumOf<T>* __restrict dweight) {
  using S = SumOf<T>;
  const int64_t d = a.d;
  const S* __restrict weight = a.weight;
  for (int64_t r = begin; r < end; ++r) {
    const T* __restrict dy = a.dy + a.dy_rows.at(r);
    const T* __restrict x = a.x + a.x_rows.at(r);
    T* __restrict dx = a.dx + a.dx_rows.at(r);
    const S rstd = a.rstd[a.rstd_rows.at(r)];
    S dot = 0;
    // The check takes the two captured loops for the same one.
    // NOLINTNEXTLINE(bugprone-branch-clone)
    if (dweight != nullptr) {
#pragma omp simd reduction(+ : dot)
      for (int64_t j = 0; j < d; ++j) {
        const S product = load(dy[j]) * load(x[j]);
        dweight[j] += product * rstd;
        dot += product * weight[j];
      }
    } else {
#pragma omp simd reduction(+ : dot)
      for (int64_t j = 0; j < d; ++j) dot += load(dy[j]) * load(x[j]) * weight[j];
    }
    const S c = dot * rstd * rstd / static_cast<S>(d);
    if (a.d_sum != nullptr) {
      const T* __restrict d_sum = a.d_sum + a.d_sum_rows.at(r);
#pragma omp simd
      for (int64_t j = 0; j < d; ++j) {
        store(dx[j], rstd * (load(dy[j]) * weight[j] - load(x[j]) * c) + load(d_sum[j]));
      }
    } else {
#pragma omp simd
      for (int64_t j = 0; j < d; ++j) {
        store(dx[j], rstd * (load(dy[j]) * weight[j] - load(x[j]) * c));
      }
    }
  }
}

}  // namespace

PLIMSOLL_CLONES void norm_forward(const NormForward<Bf16>& a, int64_t begin, int64_t end) {
  forward_rows(a, begin, end);
}
PLIMSOLL_CLONES void norm_forward(const NormForward<float>& a, int64_t begin, int64_t end) {
  forward_rows(a, begin, end);
}
void norm_forward(const NormForward<double>& a, int64_t begin, int64_t end) {
  forward_rows(a, begin, end);
}
PLIMSOLL_CLONES void norm_backward(const NormBackward<Bf16>& a, int64_t begin, int64_t end,
                                   float* dweight) {
  backward_rows(a, begin, end, dweight);
}
PLIMSOLL_CLONES void norm_backward(const NormBackward<float>& a, int64_t begin, int64_t end,
                                   float* dweight) {
  backward_rows(a, begin, end, dweight);
}
void norm_backward(const NormBackward<double>& a, int64_t begin, int64_t end, double* dweight) {
  backward_rows(a, begin, end, dweight);
}

}  // namespace plimsoll::ops::cpu
