#pragma once
// torch-free

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::device {

/// Memory of this process and machine, in bytes. A number that cannot be read is absent.
struct HostMemory {
  std::optional<int64_t> resident;         ///< pages of this process that are in memory
  std::optional<int64_t> peak_resident;    ///< highest of the above since the start or reset
  std::optional<int64_t> total;            ///< of the machine
  std::optional<int64_t> available;        ///< what the kernel would still give out
  std::optional<int64_t> container_limit;  ///< the tightest limit of the control groups around us
  /// What this process may use in all: the smaller of total and container_limit.
  std::optional<int64_t> capacity() const;
};

/// Reads /proc and the control groups (version 2 or 1). `root` is put before each path, for tests.
HostMemory host_memory(const std::string& root = "");

/// The tightest memory limit of the control groups that hold this process; absent without one.
std::optional<int64_t> container_memory_limit(const std::string& root = "");

/// Starts the peak again from here; false where the kernel does not let us.
bool reset_peak_resident();

}  // namespace plimsoll::device
