#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace plimsoll::tensor {

/// A normal distribution around 0, cut off at +-cut where there is one.
struct Normal {
  double std = 1;
  std::optional<double> cut;
};

/// Fills a contiguous fp32 CPU tensor with draws. Element i is a function of (seed, i) alone, so
/// neither the number of threads nor the vector width matters: equal bits on every machine. Numbers
/// come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) by
/// the inverse of the distribution function (Giles, "Approximating the erfinv function", 2010); 24
/// bits a number, so the largest is 5.3 deviations out.
void fill_normal(const at::Tensor& out, const Normal& normal, std::uint64_t seed);

}  // namespace plimsoll::tensor
