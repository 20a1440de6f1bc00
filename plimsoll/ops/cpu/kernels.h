#pragma once

// Row kernels of the operators, for one thread each: whoever calls them splits the rows. T is Bf16,
// float or double throughout (all three are defined). No torch here.

#include <cstdint>

#include "plimsoll/ops/cpu/numbers.h"

namespace plimsoll::ops::cpu {

/// Where rows lie: row r starts at (r / inner) * outer_stride + (r % inner) * inner_stride.
struct Rows {
  int64_t inner = 1;
  int64_t outer_stride = 0;
  int64_t inner_stride = 0;
  int64_t at(int64_t r) const { return (r / inner) * outer_stride + (r % inner) * inner_stride; }
};

template <class T>
struct NormForward {
  int64_t d;
  SumOf<T> eps;
  const T* x;
  Rows x_rows;
  const T* residual;  // or null; rows as x
  T* sum;             // x + residual, or null; rows as x
  const SumOf<T>* weight;
  T* y;
  Rows y_rows;
  SumOf<T>* rstd;
  Rows rstd_rows;
};
void norm_forward(const NormForward<Bf16>& a, int64_t begin, int64_t end);
void norm_forward(const NormForward<float>& a, int64_t begin, int64_t end);
void norm_forward(const NormForward<double>& a, int64_t begin, int64_t end);

template <class T>
struct NormBackward {
  int64_t d;
  const T* dy;
  Rows dy_rows;
  const T* x;
  Rows x_rows;
  const SumOf<T>* rstd;
  Rows rstd_rows;
  const SumOf<T>* weight;
  const T* d_sum;  // added to the result, or null
  Rows d_sum_rows;
  T* dx;
  Rows dx_rows;
};
/// dweight[d] += dy * x / rms over the rows, unless it is null.
void norm_backward(const NormBackward<Bf16>& a, int64_t begin, int64_t end, float* dweight);
void norm_backward(const NormBackward<float>& a, int64_t begin, int64_t end, float* dweight);
void norm_backward(const NormBackward<double>& a, int64_t begin, int64_t end, double* dweight);

constexpr int64_t kMostHalf = 256;  // heads beyond 512 numbers go by the plain form

template <class T>
struct Rope {
  int64_t turned;  // heads that rotate
  int64_t width;   // numbers in a row of y; those behind the turned heads are copied
  int64_t half;    // head_dim / 2
  bool interleaved;
  SumOf<T> direction;  // 1, or -1 for the way back
  const T* x;
  int64_t x_stride;
  T* y;
};
/// Row r turns by the angles in table + places[r] * 2 * half (cosines, then sines).
void rope(const Rope<Bf16>& a, const float* table, const int64_t* places, int64_t begin,
          int64_t end);
void rope(const Rope<float>& a, const float* table, const int64_t* places, int64_t begin,
          int64_t end);
void rope(const Rope<double>& a, const float* table, const int64_t* places, int64_t begin,
          int64_t end);

void swiglu(const Bf16* gate, const Bf16* up, Bf16* y, int64_t n);
void swiglu(const float* gate, const float* up, float* y, int64_t n);
void swiglu(const double* gate, const double* up, double* y, int64_t n);
void swiglu_backward(const Bf16* dy, const Bf16* gate, const Bf16* up, Bf16* d_gate, Bf16* d_up,
                     int64_t n);
void swiglu_backward(const float* dy, const float* gate, const float* up, float* d_gate,
                     float* d_up, int64_t n);
void swiglu_backward(const double* dy, const double* gate, const double* up, double* d_gate,
                     double* d_up, int64_t n);

/// -log softmax(logits[v])[target]; with need_grad the logits become its gradient.
double softmax_loss(Bf16* logits, int64_t v, int64_t target, bool need_grad);
double softmax_loss(float* logits, int64_t v, int64_t target, bool need_grad);
double softmax_loss(double* logits, int64_t v, int64_t target, bool need_grad);

void add_to(float* to, const Bf16* from, int64_t n);
void add_to(float* to, const float* from, int64_t n);
void add_to(double* to, const double* from, int64_t n);
void widen(const Bf16* from, float* to, int64_t n);
void narrow(const float* from, Bf16* to, int64_t n);

double sum_of_squares(const Bf16* x, int64_t n);
double sum_of_squares(const float* x, int64_t n);
double sum_of_squares(const double* x, int64_t n);

struct AdamWNumbers {
  float grad_scale, beta1, beta2, eps;
  float rest1, rest2;  // 1 - beta, rounded once
  float keep;          // 1 - lr * weight_decay
  float step_size;     // lr / (1 - beta1^step)
  float inverse_root;  // 1 / sqrt(1 - beta2^step)
};
void adamw(const AdamWNumbers& c, float* p, const float* g, float* m, float* v, int64_t n);

}  // namespace plimsoll::ops::cpu
