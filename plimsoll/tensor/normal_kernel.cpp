// One block is 64 counters of four numbers each, held as four rows of 64 so that every loop below
// runs over neighbours and becomes vector code. Products and sums are never contracted (see
// CMakeLists.txt), so that every vector width gives the same bits.
#include "plimsoll/tensor/normal_kernel.h"

#include <bit>
#include <cmath>

namespace plimsoll::tensor {
namespace {

constexpr int kLanes = 64;
static_assert(4 * kLanes == kNormalBlock);

constexpr std::uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

inline std::uint32_t high(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}

inline void round(std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2, std::uint32_t& c3,
                  std::uint32_t k0, std::uint32_t k1) {
  const std::uint32_t high0 = high(kMul0, c0), low0 = kMul0 * c0;
  const std::uint32_t high1 = high(kMul1, c2), low1 = kMul1 * c2;
  c0 = high1 ^ c1 ^ k0;
  c1 = low1;
  c2 = high0 ^ c3 ^ k1;
  c3 = low0;
}

// Natural logarithm of a normal number above 0, to about an ulp (the polynomial of Cephes' logf).
inline float log_positive(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 126);
  float m = std::bit_cast<float>((bits & 0x007FFFFF) | 0x3F000000);  // in [0.5, 1)
  const bool low = m < 0.707106781186547524f;
  exponent = low ? exponent - 1 : exponent;
  m = low ? m + m - 1 : m - 1;
  const float z = m * m;
  float y = 7.0376836292e-2f;
  y = y * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  y = y * m * z;
  y = y - 2.12194440e-4f * exponent - 0.5f * z;
  return m + y + 0.693359375f * exponent;
}

// erfinv(t) / t for 0 < t < 1, where rest = 1 - t.
inline float erfinv_ratio(float t, float rest) {
  const float w = -log_positive(rest * (1 + t));
  const float a = w - 2.5f;
  float middle = 2.81022636e-08f;
  middle = 3.43273939e-07f + middle * a;
  middle = -3.5233877e-06f + middle * a;
  middle = -4.39150654e-06f + middle * a;
  middle = 0.00021858087f + middle * a;
  middle = -0.00125372503f + middle * a;
  middle = -0.00417768164f + middle * a;
  middle = 0.246640727f + middle * a;
  middle = 1.50140941f + middle * a;
  const float b = std::sqrt(w) - 3;
  float tail = -0.000200214257f;
  tail = 0.000100950558f + tail * b;
  tail = 0.00134934322f + tail * b;
  tail = -0.00367342844f + tail * b;
  tail = 0.00573950773f + tail * b;
  tail = -0.0076224613f + tail * b;
  tail = 0.00943887047f + tail * b;
  tail = 1.00167406f + tail * b;
  tail = 2.83297682f + tail * b;
  return w < 5 ? middle : tail;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                    std::array<std::uint32_t, 2> key) {
  for (int r = 0; r < kRounds; ++r) {
    round(c[0], c[1], c[2], c[3], key[0], key[1]);
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void normal_block(float* out, std::uint64_t seed, std::uint64_t block, float range, float scale) {
  std::uint32_t c[4][kLanes];
  const std::uint64_t first = block * kLanes;
  for (int i = 0; i < kLanes; ++i) {
    c[0][i] = static_cast<std::uint32_t>(first + static_cast<std::uint64_t>(i));
    c[1][i] = static_cast<std::uint32_t>((first + static_cast<std::uint64_t>(i)) >> 32);
    c[2][i] = c[3][i] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int r = 0; r < kRounds; ++r) {
    for (int i = 0; i < kLanes; ++i) round(c[0][i], c[1][i], c[2][i], c[3][i], k0, k1);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < kLanes; ++i) {
      // 23 bits of distance from 0, so that a half more is exact and both ends are left out, and
      // one of sign.
      const std::uint32_t bits = c[row][i];
      const float q = (static_cast<float>(static_cast<std::int32_t>(bits >> 9)) + 0.5f) * 0x1p-23f;
      const float t = range * q;
      const float value = scale * t * erfinv_ratio(t, 1 - t);
      out[row * kLanes + i] = (bits & 1) != 0 ? -value : value;
    }
  }
}

}  // namespace plimsoll::tensor
