#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/driver/types.h"

namespace plimsoll::sim {

/// The bytes of one device. They are mapped twice: at the addresses that the program sees, where
/// nobody may touch them, so that a host that reads device memory crashes on the spot, and once
/// more for tasks. Without backing only addresses are reserved.
///
/// There are more addresses than bytes, as on a real device: its pages need not lie side by side,
/// so memory runs out when its capacity is used up, not when no hole is large enough.
class DeviceMemory {
 public:
  static constexpr std::uint64_t kAddressesPerByte = 4;

  /// Throws Error when the system does not give the address space.
  DeviceMemory(std::uint64_t capacity, bool backed);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  std::uint64_t capacity() const noexcept { return capacity_; }
  Address begin() const noexcept { return begin_; }
  Address end() const noexcept { return begin_ + mapped_; }
  bool contains(Address at) const noexcept { return at - begin_ < mapped_; }

  /// Where a task finds the byte that the program calls `at`; nullptr without backing.
  std::byte* for_tasks(Address at) const noexcept {
    return tasks_ == nullptr ? nullptr : tasks_ + (at - begin_);
  }

  /// Gives the pages of [begin, end) back to the system; they read as zeros afterwards.
  void give_back(Address begin, Address end) noexcept;

 private:
  const std::uint64_t capacity_;
  std::uint64_t mapped_ = 0;
  Address begin_ = 0;
  std::byte* tasks_ = nullptr;
  int file_ = -1;
};

}  // namespace plimsoll::sim
