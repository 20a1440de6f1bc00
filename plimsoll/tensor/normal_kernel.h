#pragma once
// torch-free

#include <array>
#include <cstdint>

namespace plimsoll::tensor {

/// Philox4x32-10 of one counter, as published; for tests.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// Numbers of one block: what the kernel makes at a time.
inline constexpr std::int64_t kNormalBlock = 256;

/// Block `block` of the stream of `seed`: kNormalBlock numbers scale * erfinv(u) with u uniform in
/// (-range, range), 0 < range <= 1.
void normal_block(float* out, std::uint64_t seed, std::uint64_t block, float range, float scale);

}  // namespace plimsoll::tensor
