#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace plimsoll::generate {

struct SamplingConfig {
  double temperature = 1.0;  ///< 0: always the likeliest token
  int64_t top_k = 0;         ///< only the k likeliest; 0: all
  double top_p = 1.0;        ///< only the likeliest that together have this probability
  uint64_t seed = 42;
};

/// Throws UsageError naming the option and its value.
void check(const SamplingConfig& config);

/// Draws one token from logits by temperature, then top-k, then top-p (nucleus sampling, Holtzman
/// et al. 2020). Ties are broken by the smaller id; arithmetic is in double, so that a seed gives
/// the same token everywhere for the same logits. Throws Error when no logit is finite.
int32_t sample(std::span<const float> logits, const SamplingConfig& config,
               std::mt19937_64& random);

}  // namespace plimsoll::generate
