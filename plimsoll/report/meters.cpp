#include "plimsoll/report/meters.h"

#include <fmt/format.h>

#include <initializer_list>

#include "plimsoll/base/error.h"

namespace plimsoll::report {
namespace {

int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) {
      throw Error("flops per token: the model's sizes overflow 64 bits");
    }
  }
  return result;
}

}  // namespace

int64_t flops_per_token(const FlopsShape& s) {
  if (s.params < 0 || s.embedding_params < 0 || s.embedding_params > s.params || s.layers < 0 ||
      s.heads < 0 || s.head_dim < 0 || s.seq_len < 0) {
    throw Error(
        fmt::format("flops per token: impossible sizes: {} parameters ({} of the embedding), {} "
                    "layers, {} heads of {}, {} tokens",
                    s.params, s.embedding_params, s.layers, s.heads, s.head_dim, s.seq_len));
  }
  const int64_t weights = product({6, s.params - s.embedding_params});
  const int64_t attention = product({6, s.layers, s.heads, 2, s.head_dim, s.seq_len});
  int64_t sum = 0;
  if (__builtin_add_overflow(weights, attention, &sum)) product({INT64_MAX, 2});
  return sum;
}

std::optional<double> tokens_per_second(int64_t tokens, double seconds) {
  if (!(seconds > 0)) return std::nullopt;
  return static_cast<double>(tokens) / seconds;
}

std::optional<double> tflops(int64_t flops_per_token, std::optional<double> tokens_per_second) {
  if (!tokens_per_second) return std::nullopt;
  return static_cast<double>(flops_per_token) * *tokens_per_second / 1e12;
}

std::optional<double> mfu(int64_t flops_per_token, std::optional<double> tokens_per_second,
                          std::optional<double> peak_flops) {
  if (!tokens_per_second || !peak_flops || !(*peak_flops > 0)) return std::nullopt;
  return 100 * static_cast<double>(flops_per_token) * *tokens_per_second / *peak_flops;
}

void StepClock::add(double seconds) {
  constexpr double kKeep = 0.9;
  weighted_ = kKeep * weighted_ + seconds;
  weight_ = kKeep * weight_ + 1;
}

std::optional<double> StepClock::remaining(int64_t steps) const {
  if (weight_ == 0) return std::nullopt;
  return weighted_ / weight_ * static_cast<double>(steps);
}

}  // namespace plimsoll::report
