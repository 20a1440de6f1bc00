#include "plimsoll/generate/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::generate {

void check(const SamplingConfig& c) {
  if (!(std::isfinite(c.temperature) && c.temperature >= 0)) {
    throw UsageError(
        fmt::format("temperature = {}: must be finite and not negative", c.temperature));
  }
  if (c.top_k < 0) throw UsageError(fmt::format("top-k = {}: must not be negative", c.top_k));
  if (!(c.top_p > 0 && c.top_p <= 1)) {
    throw UsageError(fmt::format("top-p = {}: must lie in (0, 1]", c.top_p));
  }
}

int32_t sample(std::span<const float> logits, const SamplingConfig& config,
               std::mt19937_64& random) {
  std::vector<int32_t> ids;
  ids.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) ids.push_back(static_cast<int32_t>(i));
  }
  if (ids.empty()) {
    throw Error("the model's logits are not finite",
                "the weights are damaged or training diverged");
  }
  auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (config.temperature == 0) return *std::min_element(ids.begin(), ids.end(), likelier);

  if (config.top_k > 0 && config.top_k < static_cast<int64_t>(ids.size())) {
    std::nth_element(ids.begin(), ids.begin() + config.top_k, ids.end(), likelier);
    ids.resize(static_cast<size_t>(config.top_k));
  }
  std::sort(ids.begin(), ids.end(), likelier);
  std::vector<double> weights(ids.size());
  const double top = logits[ids.front()];
  for (size_t i = 0; i < ids.size(); ++i) {
    weights[i] = std::exp((logits[ids[i]] - top) / config.temperature);
  }
  if (config.top_p < 1) {
    const double enough = config.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
    double sum = 0;
    size_t kept = 0;
    while (kept < weights.size() && sum < enough) sum += weights[kept++];
    weights.resize(std::max<size_t>(kept, 1));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  // Not std::discrete_distribution: what it draws is left to each standard library.
  double left = static_cast<double>(random() >> 11) * 0x1.0p-53 * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[weights.size() - 1];
}

}  // namespace plimsoll::generate
