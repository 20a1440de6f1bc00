#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll::report {

/// Plain numbers of a decoder. `embedding_params` are those of the input embedding, 0 where the
/// head is tied to it (they do work then); `seq_len` is the maximum context length.
struct FlopsShape {
  int64_t params = 0;
  int64_t embedding_params = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t seq_len = 0;
};

/// Floating point operations of forward and backward per token:
///   6 * (params - embedding_params) + 6 * layers * heads * 2 * head_dim * seq_len
/// No discount for causal attention. Throws Error on negative numbers and on overflow.
int64_t flops_per_token(const FlopsShape& shape);

/// Rates are absent where the time is not positive or the peak is unknown.
std::optional<double> tokens_per_second(int64_t tokens, double seconds);
std::optional<double> tflops(int64_t flops_per_token, std::optional<double> tokens_per_second);
/// Percent of `peak_flops` (operations per second).
std::optional<double> mfu(int64_t flops_per_token, std::optional<double> tokens_per_second,
                          std::optional<double> peak_flops);

/// Seconds per step, smoothed: recent steps count most, the first (which warms up) soon fades.
class StepClock {
 public:
  void add(double seconds);
  /// Time for `steps` more, absent before the first add().
  std::optional<double> remaining(int64_t steps) const;

 private:
  double weighted_ = 0, weight_ = 0;
};

}  // namespace plimsoll::report
