#include "plimsoll/device/memory_monitor.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include "plimsoll/device/choose.h"
#include "plimsoll/device/device_name.h"
#include "plimsoll/device/host_allocator.h"
#include "plimsoll/device/host_memory.h"

namespace plimsoll::device {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// The allocator, when it has statistics and was used already; asking others would throw or
/// create a context.
c10::DeviceAllocator* used_allocator(c10::Device device) {
  try {
    if (device_count(device.type()) == 0) return nullptr;
    auto* const it = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    return it != nullptr && it->initialized() ? it : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : 0;
}

MemorySnapshot read_host() {
  MemorySnapshot s;
  const HostMemory host = host_memory();
  s.reserved = host.resident;
  s.reserved_peak = host.peak_resident;
  s.capacity = host.capacity();
  if (host_allocator_installed()) {
    const HostAllocatorStats stats = host_allocator_stats();
    s.active = stats.allocated;
    s.active_peak = stats.peak_allocated;
    s.retries = stats.retries;
    s.ooms = stats.ooms;
  }
  return s;
}

}  // namespace

std::optional<double> MemorySnapshot::percent(std::optional<int64_t> bytes) const {
  if (!bytes || !capacity || *capacity <= 0) return std::nullopt;
  return 100.0 * static_cast<double>(*bytes) / static_cast<double>(*capacity);
}

std::string MemorySnapshot::text(std::optional<int64_t> bytes) const {
  if (!bytes) return "n/a";
  const double gib = static_cast<double>(*bytes) / (1 << 30);
  const auto part = percent(bytes);
  return part ? fmt::format("{:.2f} GiB ({:.1f}%)", gib, *part) : fmt::format("{:.2f} GiB", gib);
}

MemoryMonitor::MemoryMonitor(c10::Device device) : device_(device) {}

MemorySnapshot MemoryMonitor::read() const {
  if (device_.is_cpu()) return read_host();
  MemorySnapshot s;
  auto* const allocator = used_allocator(device_);
  if (allocator == nullptr) return s;
  try {
    const auto stats = allocator->getDeviceStats(index_of(device_));
    s.active = stats.active_bytes[kAll].current;
    s.active_peak = stats.active_bytes[kAll].peak;
    s.reserved = stats.reserved_bytes[kAll].current;
    s.reserved_peak = stats.reserved_bytes[kAll].peak;
    s.retries = stats.num_alloc_retries;
    s.ooms = stats.num_ooms;
  } catch (const std::exception&) {  // stays absent
  }
  try {
    const auto [free, total] = allocator->getMemoryInfo(index_of(device_));
    if (total > 0) s.capacity = static_cast<int64_t>(total);
  } catch (const std::exception&) {
  }
  return s;
}

void MemoryMonitor::reset_peak() {
  if (device_.is_cpu()) {
    reset_peak_resident();
    reset_host_allocator_stats();
    return;
  }
  auto* const allocator = used_allocator(device_);
  if (allocator == nullptr) return;
  try {
    allocator->resetPeakStats(index_of(device_));
    allocator->resetAccumulatedStats(index_of(device_));
  } catch (const std::exception&) {  // then peaks are those since the start
  }
}

std::optional<std::string> MemoryMonitor::name() const {
  return device_name(device_);
}

std::string MemoryMonitor::missing() const {
  const MemorySnapshot s = read();
  if (device_.is_cpu()) {
    if (!s.reserved) return "/proc/self/status cannot be read";
    return s.active ? "" : "the caching host allocator is not installed";
  }
  if (device_count(device_.type()) == 0) return "no such device is here";
  if (dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device_.type())) == nullptr)
    return "the backend's allocator gives no statistics";
  if (used_allocator(device_) == nullptr) return "nothing was allocated yet";
  if (!s.active) return "the backend's statistics fail";
  return s.capacity ? "" : "the backend does not tell the device's capacity";
}

}  // namespace plimsoll::device
