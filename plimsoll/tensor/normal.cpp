#include "plimsoll/tensor/normal.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/tensor/normal_kernel.h"

namespace plimsoll::tensor {

void fill_normal(const at::Tensor& out, const Normal& normal, std::uint64_t seed) {
  if (!out.is_cpu() || out.scalar_type() != at::kFloat || !out.is_contiguous()) {
    throw Error(fmt::format("fill_normal: a contiguous fp32 tensor on the CPU, not {} on {}",
                            c10::toString(out.scalar_type()), out.device().str()));
  }
  const double scale = normal.std * std::sqrt(2.0);
  // Beyond six deviations the cut cuts nothing.
  const bool cut = normal.cut && *normal.cut < 6 * normal.std;
  const auto range = static_cast<float>(cut ? std::erf(*normal.cut / scale) : 1.0);
  auto* const data = out.mutable_data_ptr<float>();
  const std::int64_t n = out.numel();
  at::parallel_for(
      0, (n + kNormalBlock - 1) / kNormalBlock, 64, [&](std::int64_t begin, std::int64_t end) {
        std::array<float, kNormalBlock> last;
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t at = b * kNormalBlock, size = std::min(kNormalBlock, n - at);
          float* const to = size == kNormalBlock ? data + at : last.data();
          normal_block(to, seed, static_cast<std::uint64_t>(b), range, static_cast<float>(scale));
          if (to == last.data()) std::copy_n(last.data(), size, data + at);
          if (!cut) continue;
          const auto bound = static_cast<float>(*normal.cut);  // which rounding may have passed
          for (std::int64_t i = at; i < at + size; ++i)
            data[i] = std::clamp(data[i], -bound, bound);
        }
      });
}

}  // namespace plimsoll::tensor
