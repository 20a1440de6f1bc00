#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::device {

/// A row of profiles/peak_flops.toml: dense bf16 FLOP/s of devices whose name contains `name`.
struct PeakRow {
  std::string name;
  double flops = 0;
  std::string source;
};

/// The table, in the order in which it is searched; it is part of the library.
const std::vector<PeakRow>& peak_table();

/// Reads such a table. Throws Error with the line: not TOML, a row without name, flops or source,
/// flops that are not above zero.
std::vector<PeakRow> parse_peak_table(const std::string& toml, const std::string& file);

/// First row whose name is part of `device_name` (case matters). An unknown device has no peak:
/// MFU is then n/a, not a guess.
std::optional<double> listed_peak_flops(const std::string& device_name,
                                        const std::vector<PeakRow>& table = peak_table());

/// FLOP/s that this CPU reaches on a large matrix product in `dtype` (kFloat or kBFloat16) with
/// torch's current number of threads. Measured once for 0.3 s and kept in
/// $PLIMSOLL_CACHE/peak_flops.json by processor, threads, dtype and torch version. Throws Error for
/// another dtype.
double measured_cpu_peak_flops(c10::ScalarType dtype);

/// As measured_cpu_peak_flops, but looks again for 20 ms and keeps the larger value, since a busy
/// machine shows too little: for moments when nobody waits.
double remeasured_cpu_peak_flops(c10::ScalarType dtype);

/// The peak to hold MFU against, and where it is from ("measured", or the row's source).
struct Peak {
  double flops = 0;
  std::string source;
};
std::optional<Peak> peak_flops(c10::Device device, c10::ScalarType dtype);

}  // namespace plimsoll::device
