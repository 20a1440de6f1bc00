#pragma once

// Numbers as the CPU kernels see them: no torch here. Everything is plain C++ that the compiler
// turns into vector instructions, once for each level named in PLIMSOLL_CLONES; the right one is
// chosen when the library is loaded.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PLIMSOLL_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PLIMSOLL_CLONES
#endif
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

namespace plimsoll::ops::cpu {

struct Bf16 {
  uint16_t bits;
};

/// What sums and statistics of T are kept in.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

PLIMSOLL_INLINE float load(Bf16 x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16);
}
PLIMSOLL_INLINE float load(float x) {
  return x;
}
PLIMSOLL_INLINE double load(double x) {
  return x;
}

/// The upper half of what comes back is the bf16 nearest to x, ties to even; a NaN stays one.
PLIMSOLL_INLINE uint32_t rounded_bits(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t nearest = u + 0x7fffu + ((u >> 16) & 1u);
  return (u & 0x7fffffffu) > 0x7f800000u ? (u | 0x400000u) : nearest;
}

PLIMSOLL_INLINE void store(Bf16& to, float x) {
  to.bits = static_cast<uint16_t>(rounded_bits(x) >> 16);
}
PLIMSOLL_INLINE void store(float& to, float x) {
  to = x;
}
PLIMSOLL_INLINE void store(double& to, double x) {
  to = x;
}

/// e^x to about one unit in the last place; nothing below e^-87.3, infinity above e^88.3.
PLIMSOLL_INLINE float exponential(float given) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  float x = given < -87.3f ? -87.3f : given;
  x = x > 88.3f ? 88.3f : x;
  const float t = x * 1.44269504088896341f + kMagic;
  const float n = t - kMagic;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(t) - 0x4b400000u + 127u) << 23;
  p *= std::bit_cast<float>(power);
  p = given < -87.3f ? 0.0f : p;
  return given > 88.3f ? std::numeric_limits<float>::infinity() : p;
}
PLIMSOLL_INLINE double exponential(double x) {
  return std::exp(x);
}

}  // namespace plimsoll::ops::cpu
