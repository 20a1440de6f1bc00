#include "plimsoll/ops/cpu/attention_kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace plimsoll::ops::cpu {
namespace {

constexpr int64_t kB = kAttentionBlock;
constexpr float kLog2E = 1.44269504088896341f;

/// kWidth floats in one register (the compiler splits it where registers are narrower).
template <int kWidth>
struct Lanes {
  typedef float Float __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
};

template <int kWidth>
PLIMSOLL_INLINE typename Lanes<kWidth>::Float& lane(float* p) {
  return *reinterpret_cast<typename Lanes<kWidth>::Float*>(p);
}

/// 2^x for x <= 0 or so; 0 below 2^-126.
template <int kWidth>
PLIMSOLL_INLINE typename Lanes<kWidth>::Float power_of_two(typename Lanes<kWidth>::Float x) {
  using Float = typename Lanes<kWidth>::Float;
  using Int = typename Lanes<kWidth>::Int;
  constexpr float kMagic = 12582912.0f;  // adding it rounds to an integer
  const Float zero = {};
  const Float t = x + kMagic;
  const Float r = x - (t - kMagic);
  Float p = zero + 1.54035304e-4f;
  p = p * r + 1.33335581e-3f;
  p = p * r + 9.61812911e-3f;
  p = p * r + 5.55041087e-2f;
  p = p * r + 2.40226507e-1f;
  p = p * r + 6.93147181e-1f;
  p = p * r + 1.0f;
  // Between vectors of one size a cast keeps the bits.
  const Int power = ((Int)t - 0x4b400000 + 127) << 23;
  p = p * (Float)power;
  return x < -126.0f ? zero : p;
}

/// c[m, n] (+)= sum over k of a(m, k) * b[k, n], where a(m, k) = a[m * am + k * ak]; rows of b and
/// c are n long. kTile rows times kVectors registers of c are in hand at a time.
template <int kWidth, int kTile, int kVectors, bool kAdd>
PLIMSOLL_INLINE void multiply(float* __restrict c, const float* __restrict a, int64_t am,
                              int64_t ak, const float* __restrict b, int64_t m, int64_t n,
                              int64_t k) {
  using Float = typename Lanes<kWidth>::Float;
  for (int64_t j = 0; j < n; j += kWidth * kVectors) {
    for (int64_t i = 0; i < m; i += kTile) {
      Float sum[kTile][kVectors];
#pragma GCC unroll 16
      for (int r = 0; r < kTile; ++r) {
#pragma GCC unroll 8
        for (int w = 0; w < kVectors; ++w) {
          const float* from = c + (i + r) * n + j + w * kWidth;
          sum[r][w] = kAdd ? *reinterpret_cast<const Float*>(from) : Float{};
        }
      }
      const float* row = b + j;
      const float* left = a + i * am;
      for (int64_t l = 0; l < k; ++l, row += n, left += ak) {
        Float right[kVectors];
#pragma GCC unroll 8
        for (int w = 0; w < kVectors; ++w) {
          right[w] = *reinterpret_cast<const Float*>(row + w * kWidth);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kTile; ++r) {
          const float factor = left[r * am];
#pragma GCC unroll 8
          for (int w = 0; w < kVectors; ++w) sum[r][w] += right[w] * factor;
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kTile; ++r) {
#pragma GCC unroll 8
        for (int w = 0; w < kVectors; ++w) {
          *reinterpret_cast<Float*>(c + (i + r) * n + j + w * kWidth) = sum[r][w];
        }
      }
    }
  }
}

/// n queries wide.
template <int kWidth, bool kAdd>
PLIMSOLL_INLINE void by_query(float* c, const float* a, int64_t am, int64_t ak, const float* b,
                              int64_t m, int64_t k) {
  constexpr int kVectors = kWidth == 16 ? 4 : 2;
  multiply<kWidth, 4, kVectors, kAdd>(c, a, am, ak, b, m, kB, k);
}

/// head_dim wide, added.
template <int kWidth, int64_t kDim>
PLIMSOLL_INLINE void by_number(float* c, const float* a, int64_t am, int64_t ak, const float* b,
                               int64_t m, int64_t k) {
  constexpr int kMost = kWidth == 16 ? 4 : 2;
  constexpr int kVectors = kDim / kWidth < kMost ? kDim / kWidth : kMost;
  constexpr int kTile = kWidth == 16 ? 16 / kVectors : 4;
  multiply<kWidth, kTile, kVectors, true>(c, a, am, ak, b, m, kDim, k);
}

/// Rows of `count` tokens as fp32 [kB, kDim]; the rest is zero.
template <int64_t kDim, class T>
PLIMSOLL_INLINE void take_rows(const T* from, int64_t stride, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const T* row = from + i * stride;
#pragma omp simd
    for (int64_t d = 0; d < kDim; ++d) to[i * kDim + d] = load(row[d]);
  }
  std::memset(to + count * kDim, 0, static_cast<size_t>((kB - count) * kDim) * sizeof(float));
}

template <int64_t kDim>
PLIMSOLL_INLINE void transpose(const float* __restrict rows, float* __restrict columns,
                               float factor) {
  for (int64_t i = 0; i < kB; ++i) {
    for (int64_t d = 0; d < kDim; ++d) columns[d * kB + i] = rows[i * kDim + d] * factor;
  }
}

/// Hides what a query of the diagonal block must not see: keys behind it.
PLIMSOLL_INLINE void mask(float* scores) {
  for (int64_t j = 1; j < kB; ++j) {
    for (int64_t i = 0; i < j; ++i) scores[j * kB + i] = -std::numeric_limits<float>::infinity();
  }
}

/// Cache-line aligned floats.
class Buffer {
 public:
  explicit Buffer(int64_t n)
      : memory_(new float[static_cast<size_t>(n) + 16]), begin_(memory_.get()) {
    const auto off = reinterpret_cast<uintptr_t>(begin_) % 64;
    if (off != 0) begin_ += (64 - off) / 4;
  }
  float* take(int64_t n) {
    float* at = begin_;
    begin_ += n;
    return at;
  }

 private:
  std::unique_ptr<float[]> memory_;
  float* begin_;
};

template <int kWidth, int64_t kDim, class T>
PLIMSOLL_INLINE void forward(const AttentionForward<T>& a, int64_t from, int64_t to,
                             Buffer buffer) {
  using Float = typename Lanes<kWidth>::Float;
  float* rows = buffer.take(kB * kDim);
  float* q = buffer.take(kB * kDim);  // [kDim, kB], in units of powers of two
  float* k = buffer.take(kB * kDim);
  float* v = buffer.take(kB * kDim);
  float* o = buffer.take(kB * kDim);  // [kDim, kB]
  float* s = buffer.take(kB * kB);    // [keys, queries]
  float* top = buffer.take(kB);
  float* sum = buffer.take(kB);
  for (int64_t block = from; block < to; block += kB) {
    const int64_t queries = std::min(kB, a.length - block);
    take_rows<kDim>(a.q + block * a.stride, a.stride, queries, rows);
    transpose<kDim>(rows, q, a.scale * kLog2E);
    std::fill_n(o, kB * kDim, 0.0f);
    std::fill_n(sum, kB, 0.0f);
    std::fill_n(top, kB, -std::numeric_limits<float>::infinity());
    for (int64_t start = 0; start <= block; start += kB) {
      const int64_t keys = std::min(kB, a.length - start);
      take_rows<kDim>(a.k + start * a.stride, a.stride, keys, k);
      take_rows<kDim>(a.v + start * a.stride, a.stride, keys, v);
      by_query<kWidth, false>(s, k, kDim, 1, q, kB, kDim);
      if (start == block) mask(s);
      for (int64_t i = 0; i < kB; i += kWidth) {
        Float highest = lane<kWidth>(top + i);
        for (int64_t j = 0; j < kB; ++j) {
          const Float x = lane<kWidth>(s + j * kB + i);
          // Written so that a NaN comes through in the sum below.
          highest = x > highest ? x : highest;
        }
        const Float shrink = power_of_two<kWidth>(lane<kWidth>(top + i) - highest);
        Float total = lane<kWidth>(sum + i) * shrink;
        for (int64_t j = 0; j < kB; ++j) {
          const Float p = power_of_two<kWidth>(lane<kWidth>(s + j * kB + i) - highest);
          lane<kWidth>(s + j * kB + i) = p;
          total += p;
        }
        lane<kWidth>(sum + i) = total;
        lane<kWidth>(top + i) = highest;
        for (int64_t d = 0; d < kDim; ++d) lane<kWidth>(o + d * kB + i) *= shrink;
      }
      by_query<kWidth, true>(o, v, 1, kDim, s, kDim, kB);
    }
    for (int64_t i = 0; i < queries; ++i) {
      const float share = 1 / sum[i];
      T* out = a.o + (block + i) * a.o_stride;
      for (int64_t d = 0; d < kDim; ++d) store(out[d], o[d * kB + i] * share);
      a.lse[block + i] = (top[i] + std::log2(sum[i])) / kLog2E;
    }
  }
}

template <int kWidth, int64_t kDim, class T>
PLIMSOLL_INLINE void backward(const AttentionBackward<T>& a, Buffer buffer) {
  using Float = typename Lanes<kWidth>::Float;
  const int64_t padded = (a.length + kB - 1) / kB * kB;
  float* dk = buffer.take(padded * kDim);
  float* dv = buffer.take(padded * kDim);
  float* q = buffer.take(kB * kDim);
  float* q_turned = buffer.take(kB * kDim);
  float* g = buffer.take(kB * kDim);  // the gradient of o
  float* g_turned = buffer.take(kB * kDim);
  float* k = buffer.take(kB * kDim);
  float* v = buffer.take(kB * kDim);
  float* dq = buffer.take(kB * kDim);  // [kDim, kB]
  float* p = buffer.take(kB * kB);
  float* ds = buffer.take(kB * kB);
  float* lse = buffer.take(kB);
  float* delta = buffer.take(kB);
  std::fill_n(dk, padded * kDim, 0.0f);
  std::fill_n(dv, padded * kDim, 0.0f);
  for (int64_t head = 0; head < a.group; ++head) {
    for (int64_t block = 0; block < a.length; block += kB) {
      const int64_t queries = std::min(kB, a.length - block);
      take_rows<kDim>(a.q + head * kDim + block * a.stride, a.stride, queries, q);
      take_rows<kDim>(a.d_o + head * kDim + block * a.d_o_stride, a.d_o_stride, queries, g);
      transpose<kDim>(q, q_turned, a.scale * kLog2E);
      transpose<kDim>(g, g_turned, 1.0f);
      std::fill_n(dq, kB * kDim, 0.0f);
      for (int64_t i = 0; i < kB; ++i) {
        // A query that is not there gets no share of any key.
        lse[i] = std::numeric_limits<float>::infinity();
        delta[i] = 0;
        if (i >= queries) continue;
        lse[i] = a.lse[head * a.lse_stride + block + i] * kLog2E;
        const T* o = a.o + head * kDim + (block + i) * a.o_stride;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t d = 0; d < kDim; ++d) dot += load(o[d]) * g[i * kDim + d];
        delta[i] = dot;
      }
      for (int64_t start = 0; start <= block; start += kB) {
        const int64_t keys = std::min(kB, a.length - start);
        take_rows<kDim>(a.k + start * a.stride, a.stride, keys, k);
        take_rows<kDim>(a.v + start * a.stride, a.stride, keys, v);
        by_query<kWidth, false>(p, k, kDim, 1, q_turned, kB, kDim);
        if (start == block) mask(p);
        by_query<kWidth, false>(ds, v, kDim, 1, g_turned, kB, kDim);
        for (int64_t i = 0; i < kB; i += kWidth) {
          const Float shift = lane<kWidth>(lse + i), minus = lane<kWidth>(delta + i);
          for (int64_t j = 0; j < kB; ++j) {
            const Float share = power_of_two<kWidth>(lane<kWidth>(p + j * kB + i) - shift);
            lane<kWidth>(p + j * kB + i) = share;
            lane<kWidth>(ds + j * kB + i) = share * (lane<kWidth>(ds + j * kB + i) - minus);
          }
        }
        by_query<kWidth, true>(dq, k, 1, kDim, ds, kDim, kB);
        by_number<kWidth, kDim>(dv + start * kDim, p, kB, 1, g, kB, kB);
        by_number<kWidth, kDim>(dk + start * kDim, ds, kB, 1, q, kB, kB);
      }
      for (int64_t i = 0; i < queries; ++i) {
        T* out = a.dq + head * kDim + (block + i) * a.d_stride;
        for (int64_t d = 0; d < kDim; ++d) store(out[d], dq[d * kB + i] * a.scale);
      }
    }
  }
  for (int64_t i = 0; i < a.length; ++i) {
    for (int64_t d = 0; d < kDim; ++d) {
      store(a.dk[i * a.d_stride + d], dk[i * kDim + d] * a.scale);
      store(a.dv[i * a.d_stride + d], dv[i * kDim + d]);
    }
  }
}

// One function for each head_dim, dtype and level: the level is chosen at run time by hand, since
// the width of the blocks depends on it.
std::atomic<int> widest{16};

#if defined(__x86_64__)
#define PLIMSOLL_LEVEL(name) __attribute__((target(name)))
bool has_wide() {
  static const bool yes = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
  return yes && widest >= 16;
}
bool has_middle() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return yes && widest >= 8;
}
template <int64_t kDim, class T>
PLIMSOLL_LEVEL("arch=x86-64-v4")
void forward_wide(const AttentionForward<T>& a, int64_t from, int64_t to, Buffer b) {
  forward<16, kDim>(a, from, to, std::move(b));
}
template <int64_t kDim, class T>
PLIMSOLL_LEVEL("arch=x86-64-v3")
void forward_middle(const AttentionForward<T>& a, int64_t from, int64_t to, Buffer b) {
  forward<8, kDim>(a, from, to, std::move(b));
}
template <int64_t kDim, class T>
PLIMSOLL_LEVEL("arch=x86-64-v4")
void backward_wide(const AttentionBackward<T>& a, Buffer b) {
  backward<16, kDim>(a, std::move(b));
}
template <int64_t kDim, class T>
PLIMSOLL_LEVEL("arch=x86-64-v3")
void backward_middle(const AttentionBackward<T>& a, Buffer b) {
  backward<8, kDim>(a, std::move(b));
}
#endif
template <int64_t kDim, class T>
void forward_narrow(const AttentionForward<T>& a, int64_t from, int64_t to, Buffer b) {
  forward<4, kDim>(a, from, to, std::move(b));
}
template <int64_t kDim, class T>
void backward_narrow(const AttentionBackward<T>& a, Buffer b) {
  backward<4, kDim>(a, std::move(b));
}

template <int64_t kDim, class T>
void forward_of(const AttentionForward<T>& a, int64_t from, int64_t to) {
  Buffer buffer(5 * kB * kDim + kB * kB + 2 * kB);
#if defined(__x86_64__)
  if (has_wide()) return forward_wide<kDim>(a, from, to, std::move(buffer));
  if (has_middle()) return forward_middle<kDim>(a, from, to, std::move(buffer));
#endif
  forward_narrow<kDim>(a, from, to, std::move(buffer));
}

template <int64_t kDim, class T>
void backward_of(const AttentionBackward<T>& a) {
  const int64_t padded = (a.length + kB - 1) / kB * kB;
  Buffer buffer(2 * padded * kDim + 7 * kB * kDim + 2 * kB * kB + 2 * kB);
#if defined(__x86_64__)
  if (has_wide()) return backward_wide<kDim>(a, std::move(buffer));
  if (has_middle()) return backward_middle<kDim>(a, std::move(buffer));
#endif
  backward_narrow<kDim>(a, std::move(buffer));
}

template <class T>
void forward_any(const AttentionForward<T>& a, int64_t from, int64_t to) {
  switch (a.head_dim) {
    case 16:
      return forward_of<16>(a, from, to);
    case 32:
      return forward_of<32>(a, from, to);
    case 64:
      return forward_of<64>(a, from, to);
    default:
      return forward_of<128>(a, from, to);
  }
}

template <class T>
void backward_any(const AttentionBackward<T>& a) {
  switch (a.head_dim) {
    case 16:
      return backward_of<16>(a);
    case 32:
      return backward_of<32>(a);
    case 64:
      return backward_of<64>(a);
    default:
      return backward_of<128>(a);
  }
}

}  // namespace

void limit_attention_width(int lanes) {
  widest = lanes;
}

void attention_forward(const AttentionForward<Bf16>& a, int64_t from, int64_t to) {
  forward_any(a, from, to);
}
void attention_forward(const AttentionForward<float>& a, int64_t from, int64_t to) {
  forward_any(a, from, to);
}
void attention_backward(const AttentionBackward<Bf16>& a) {
  backward_any(a);
}
void attention_backward(const AttentionBackward<float>& a) {
  backward_any(a);
}

}  // namespace plimsoll::ops::cpu
