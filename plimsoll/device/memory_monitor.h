#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::device {

/// How full a device is, in bytes. A number that the backend does not give is absent: it prints as
/// "n/a" and is never taken for 0.
struct MemorySnapshot {
  std::optional<int64_t> active;  ///< in use by tensors
  std::optional<int64_t> active_peak;
  std::optional<int64_t> reserved;  ///< held by the allocator, in use or not; on the CPU: resident
  std::optional<int64_t> reserved_peak;
  std::optional<int64_t> capacity;  ///< of the device; on the CPU: container limit or machine
  std::optional<int64_t> retries;   ///< allocations that succeeded only after a cache flush
  std::optional<int64_t> ooms;      ///< allocations that failed

  /// Percent of capacity; absent when either is, or when the capacity is not above zero.
  std::optional<double> percent(std::optional<int64_t> bytes) const;
  /// "1.23 GiB (4.5%)", "1.23 GiB" without a capacity, "n/a" without the number.
  std::string text(std::optional<int64_t> bytes) const;
};

/// Reads a device's memory. Nothing throws after construction: a backend whose statistics throw is
/// one without statistics. Asking creates no context. Not thread-safe; one owner.
///
/// On the CPU `reserved` is the resident set of the process, program and files included, and
/// `active` what tensors of the caching host allocator use, absent while that one is not installed.
class MemoryMonitor {
 public:
  explicit MemoryMonitor(c10::Device device);

  MemorySnapshot read() const;
  /// Peaks start again from here, retries and ooms from zero (where the backend can).
  void reset_peak();

  c10::Device device() const { return device_; }
  std::optional<std::string> name() const;
  /// Why numbers are absent, for one warning; empty when all are there.
  std::string missing() const;

 private:
  c10::Device device_;
};

}  // namespace plimsoll::device
