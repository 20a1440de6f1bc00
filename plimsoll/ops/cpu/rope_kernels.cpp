#include <cstring>

#include "plimsoll/ops/cpu/kernels.h"

namespace plimsoll::ops::cpu {
namespace {

template <class T, class S>
PLIMSOLL_INLINE void turn(const T* __restrict x, T* __restrict y, const S* __restrict c,
                          const S* __restrict s, int64_t half, bool interleaved) {
  if (!interleaved) {
#pragma omp simd
    for (int64_t j = 0; j < half; ++j) {
      const S a = load(x[j]), b = load(x[j + half]);
      store(y[j], a * c[j] - b * s[j]);
      store(y[j + half], a * s[j] + b * c[j]);
    }
    return;
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    // A pair is one 32-bit word, the first of the two in its lower half.
    const char* from = reinterpret_cast<const char*>(x);
    char* to = reinterpret_cast<char*>(y);
#pragma omp simd
    for (int64_t j = 0; j < half; ++j) {
      uint32_t pair;
      std::memcpy(&pair, from + 4 * j, 4);
      const float a = std::bit_cast<float>(pair << 16);
      const float b = std::bit_cast<float>(pair & 0xffff0000u);
      pair = (rounded_bits(a * c[j] - b * s[j]) >> 16) |
             (rounded_bits(a * s[j] + b * c[j]) & 0xffff0000u);
      std::memcpy(to + 4 * j, &pair, 4);
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < half; ++j) {
      const S a = x[2 * j], b = x[2 * j + 1];
      y[2 * j] = a * c[j] - b * s[j];
      y[2 * j + 1] = a * s[j] + b * c[j];
    }
  }
}

/// kHalf: half of head_dim where it is known, else 0.
template <int64_t kHalf, class T>
PLIMSOLL_INLINE void rows(const Rope<T>& a, const float* table, const int64_t* places,
                          int64_t begin, int64_t end) {
  using S = SumOf<T>;
  const int64_t half = kHalf > 0 ? kHalf : a.half;
  S c[kMostHalf], s[kMostHalf];
  for (int64_t r = begin; r < end; ++r) {
    const float* row = table + places[r] * 2 * half;
    for (int64_t j = 0; j < half; ++j) {
      c[j] = row[j];
      s[j] = a.direction * row[half + j];
    }
    const T* x = a.x + r * a.x_stride;
    T* y = a.y + r * a.width;
    for (int64_t h = 0; h < a.turned; ++h) {
      turn(x + h * 2 * half, y + h * 2 * half, c, s, half, a.interleaved);
    }
    const int64_t turned = a.turned * 2 * half;
    std::memcpy(y + turned, x + turned, static_cast<size_t>(a.width - turned) * sizeof(T));
  }
}

template <class T>
PLIMSOLL_INLINE void choose(const Rope<T>& a, const float* table, const int64_t* places,
                            int64_t begin, int64_t end) {
  switch (a.half) {
    case 8:
      return rows<8>(a, table, places, begin, end);
    case 32:
      return rows<32>(a, table, places, begin, end);
    case 64:
      return rows<64>(a, table, places, begin, end);
    default:
      return rows<0>(a, table, places, begin, end);
  }
}

}  // namespace

PLIMSOLL_CLONES void rope(const Rope<Bf16>& a, const float* table, const int64_t* places,
                          int64_t begin, int64_t end) {
  choose(a, table, places, begin, end);
}
PLIMSOLL_CLONES void rope(const Rope<float>& a, const float* table, const int64_t* places,
                          int64_t begin, int64_t end) {
  choose(a, table, places, begin, end);
}
void rope(const Rope<double>& a, const float* table, const int64_t* places, int64_t begin,
          int64_t end) {
  rows<0>(a, table, places, begin, end);
}

}  // namespace plimsoll::ops::cpu
