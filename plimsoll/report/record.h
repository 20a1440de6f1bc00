#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace plimsoll::report {

/// Memory of the device at its peak since the last record. What a backend cannot tell stays absent:
/// it is printed as n/a and written as null, never as 0.
struct MemoryUse {
  std::optional<uint64_t> active_bytes;
  std::optional<double> active_percent;  // of the device's capacity, 0..100
  std::optional<uint64_t> reserved_bytes;
  std::optional<double> reserved_percent;
};

/// One training step. `tokens` and `seconds` are of this step alone.
struct StepRecord {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> grad_norm;  // before clipping
  double lr = 0;                    // as used by this step
  int64_t tokens = 0;
  double seconds = 0;
  std::optional<double> data_seconds;  // of which waiting for data
  std::optional<double> tokens_per_second;
  std::optional<double> tflops;
  std::optional<double> mfu;  // percent of the peak, 0..100
  MemoryUse memory;
  int64_t tokens_seen = 0;  // since step 1
  std::map<std::string, double> extra;
};

/// One validation pass, after `step` steps.
struct ValidationRecord {
  int64_t step = 0;
  double loss = 0;
  int64_t tokens = 0;
  double seconds = 0;
  std::optional<double> tokens_per_second;
  MemoryUse memory;
};

}  // namespace plimsoll::report
