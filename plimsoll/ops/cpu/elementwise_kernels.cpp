#include <limits>

#include "plimsoll/ops/cpu/kernels.h"

namespace plimsoll::ops::cpu {
namespace {

template <class T>
PLIMSOLL_INLINE void swiglu_of(const T* __restrict gate, const T* __restrict up, T* __restrict y,
                               int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const auto g = load(gate[j]);
    store(y[j], g / (1 + exponential(-g)) * load(up[j]));
  }
}

template <class T>
PLIMSOLL_INLINE void swiglu_backward_of(const T* __restrict dy, const T* __restrict gate,
                                        const T* __restrict up, T* __restrict d_gate,
                                        T* __restrict d_up, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const auto g = load(gate[j]);
    const auto s = 1 / (1 + exponential(-g));
    const auto silu = g * s, dyj = load(dy[j]), u = load(up[j]);
    store(d_up[j], dyj * silu);
    store(d_gate[j], dyj * u * (s + silu * (1 - s)));
  }
}

template <class T>
PLIMSOLL_INLINE double softmax_loss_of(T* __restrict z, int64_t v, int64_t target, bool need_grad) {
  using S = SumOf<T>;
  S top = -std::numeric_limits<S>::infinity();
#pragma omp simd reduction(max : top)
  for (int64_t j = 0; j < v; ++j) top = load(z[j]) > top ? load(z[j]) : top;
  S sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < v; ++j) sum += exponential(load(z[j]) - top);
  const double lse = static_cast<double>(top) + std::log(static_cast<double>(sum));
  const double loss = lse - static_cast<double>(load(z[target]));
  if (!need_grad) return loss;
  const S shift = static_cast<S>(lse);
#pragma omp simd
  for (int64_t j = 0; j < v; ++j) store(z[j], exponential(load(z[j]) - shift));
  // Not from the stored number, whose rounding would be large against a small difference.
  store(z[target], static_cast<S>(std::expm1(-loss)));
  return loss;
}

template <class S, class T>
PLIMSOLL_INLINE void add_to_of(S* __restrict to, const T* __restrict from, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] += load(from[j]);
}

template <class T>
PLIMSOLL_INLINE double sum_of_squares_of(const T* __restrict x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    const double v = static_cast<double>(load(x[j]));
    sum += v * v;
  }
  return sum;
}

}  // namespace

PLIMSOLL_CLONES void swiglu(const Bf16* gate, const Bf16* up, Bf16* y, int64_t n) {
  swiglu_of(gate, up, y, n);
}
PLIMSOLL_CLONES void swiglu(const float* gate, const float* up, float* y, int64_t n) {
  swiglu_of(gate, up, y, n);
}
void swiglu(const double* gate, const double* up, double* y, int64_t n) {
  swiglu_of(gate, up, y, n);
}

PLIMSOLL_CLONES void swiglu_backward(const Bf16* dy, const Bf16* gate, const Bf16* up, Bf16* d_gate,
                                     Bf16* d_up, int64_t n) {
  swiglu_backward_of(dy, gate, up, d_gate, d_up, n);
}
PLIMSOLL_CLONES void swiglu_backward(const float* dy, const float* gate, const float* up,
                                     float* d_gate, float* d_up, int64_t n) {
  swiglu_backward_of(dy, gate, up, d_gate, d_up, n);
}
void swiglu_backward(const double* dy, const double* gate, const double* up, double* d_gate,
                     double* d_up, int64_t n) {
  swiglu_backward_of(dy, gate, up, d_gate, d_up, n);
}

PLIMSOLL_CLONES double softmax_loss(Bf16* logits, int64_t v, int64_t target, bool need_grad) {
  return softmax_loss_of(logits, v, target, need_grad);
}
PLIMSOLL_CLONES double softmax_loss(float* logits, int64_t v, int64_t target, bool need_grad) {
  return softmax_loss_of(logits, v, target, need_grad);
}
double softmax_loss(double* logits, int64_t v, int64_t target, bool need_grad) {
  return softmax_loss_of(logits, v, target, need_grad);
}

PLIMSOLL_CLONES void add_to(float* to, const Bf16* from, int64_t n) {
  add_to_of(to, from, n);
}
PLIMSOLL_CLONES void add_to(float* to, const float* from, int64_t n) {
  add_to_of(to, from, n);
}
void add_to(double* to, const double* from, int64_t n) {
  add_to_of(to, from, n);
}

PLIMSOLL_CLONES void widen(const Bf16* __restrict from, float* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] = load(from[j]);
}

PLIMSOLL_CLONES void narrow(const float* __restrict from, Bf16* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) store(to[j], from[j]);
}

PLIMSOLL_CLONES double sum_of_squares(const Bf16* x, int64_t n) {
  return sum_of_squares_of(x, n);
}
PLIMSOLL_CLONES double sum_of_squares(const float* x, int64_t n) {
  return sum_of_squares_of(x, n);
}
double sum_of_squares(const double* x, int64_t n) {
  return sum_of_squares_of(x, n);
}

PLIMSOLL_CLONES void adamw(const AdamWNumbers& numbers, float* __restrict p,
                           const float* __restrict g, float* __restrict m, float* __restrict v,
                           int64_t n) {
  const AdamWNumbers c = numbers;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float grad = g[j] * c.grad_scale;
    const float first = m[j] + c.rest1 * (grad - m[j]);
    const float second = c.beta2 * v[j] + c.rest2 * grad * grad;
    m[j] = first;
    v[j] = second;
    p[j] = p[j] * c.keep - c.step_size * first / (std::sqrt(second) * c.inverse_root + c.eps);
  }
}

}  // namespace plimsoll::ops::cpu
