#include "plimsoll/device/capabilities.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "plimsoll/device/choose.h"

namespace plimsoll::device {
namespace {

std::string reason(const std::exception& e) {
  const std::string what = e.what();
  std::string line = what.substr(0, what.find('\n'));
  return line.empty() ? "failed without a reason" : line;
}

/// Runs `ask`; what it returns is how it was found out, what it throws is why it is not there.
Capability tried(const std::function<std::string()>& ask) {
  try {
    return {true, ask()};
  } catch (const std::exception& e) {
    return {false, reason(e)};
  } catch (...) {
    return {false, "failed with an exception of an unknown type"};
  }
}

struct Missing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

c10::DeviceAllocator& device_allocator(c10::DeviceType type) {
  // Not c10::getDeviceAllocator: that one reports a plain allocator as a bug inside torch.
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(type));
  if (allocator == nullptr) throw Missing("its allocator is no c10::DeviceAllocator");
  return *allocator;
}

Capabilities of_cpu() {
  Capabilities c;
  const Capability none{false, "the CPU works in order"};
  c.streams = c.events = c.event_timing = none;
  c.allocator_stats = {false, "host memory is read from the system instead"};
  c.memory_info = c.allocator_stats;
  c.pinned_host = {false, "host memory needs no pinning for the CPU"};
  c.backward = {true, "built in"};
  return c;
}

}  // namespace

std::vector<std::pair<std::string, Capability>> Capabilities::rows() const {
  return {{"streams", streams},           {"events", events},
          {"event timing", event_timing}, {"allocator statistics", allocator_stats},
          {"memory info", memory_info},   {"pinned host memory", pinned_host},
          {"backward", backward}};
}

Capabilities declared_capabilities(c10::Device device) {
  if (device.is_cpu()) return of_cpu();
  const auto type = device.type();
  Capabilities c;
  if (device_count(type) == 0) {
    const Capability none{false, "no such device is here"};
    return {none, none, none, none, none, none, none};
  }
  const Capability unknown{std::nullopt, "shown by using the device only"};
  c.streams = c.events = c.event_timing = c.memory_info = unknown;
  c.allocator_stats = tried([&] {
    device_allocator(type);
    return std::string("c10::DeviceAllocator");
  });
  if (c.allocator_stats.present == false) c.memory_info = c.allocator_stats;
  c.pinned_host = tried([&] {
    if (at::getHostAllocator(type) == nullptr) throw Missing("no host allocator is registered");
    return std::string("a host allocator is registered");
  });
  if (c.pinned_host.yes()) c.pinned_host.present = std::nullopt;
  c.backward = tried([&] {
    if (!at::accelerator::isAccelerator(type))
      throw Missing("torch does not count it as an accelerator");
    // torch counts a backend by its name alone; its engine needs the hooks.
    if (type == c10::DeviceType::PrivateUse1 && !at::isPrivateUse1HooksRegistered())
      throw Missing(
          "the backend registers no hooks object (at::RegisterPrivateUse1HooksInterface)");
    return std::string("at::accelerator knows it");
  });
  return c;
}

Capabilities probe_capabilities(c10::Device device) {
  Capabilities c = declared_capabilities(device);
  if (device.is_cpu() || device_count(device.type()) == 0) return c;
  const auto type = device.type();
  std::optional<c10::OptionalDeviceGuard> guard;
  const Capability entered = tried([&] {
    guard.emplace(device);
    return std::string("current");
  });
  if (!entered.yes()) {
    const Capability none{false, "the device cannot be made current: " + entered.how};
    return {none, none, none, none, none, none, c.backward};
  }
  const c10::impl::VirtualGuardImpl impl(type);
  const c10::Device here = device.has_index() ? device : impl.getDevice();

  c.streams = tried([&] {
    const auto current = impl.getStream(here);
    const auto other = impl.getStreamFromGlobalPool(here);
    if (other == current) throw Missing("it gives the same stream again");
    impl.synchronizeStream(other);
    return std::string("streams from its pool");
  });
  c.events = tried([&] {
    c10::Event event(type);
    const auto stream = impl.getStream(here);
    event.record(stream);
    event.block(stream);
    event.synchronize();
    if (!event.query()) throw Missing("an event that was waited for says that it has not happened");
    return std::string("record, wait, synchronize");
  });
  c.event_timing = tried([&] {
    c10::Event begin(type, c10::EventFlag::BACKEND_DEFAULT);
    c10::Event end(type, c10::EventFlag::BACKEND_DEFAULT);
    const auto stream = impl.getStream(here);
    begin.record(stream);
    end.record(stream);
    end.synchronize();
    const double ms = begin.elapsedTime(end);
    if (!(ms >= 0)) throw Missing(fmt::format("elapsed time is {} ms", ms));
    return std::string("elapsed time between two events");
  });
  c.allocator_stats = tried([&] {
    device_allocator(type).getDeviceStats(here.index());
    return std::string("c10::DeviceAllocator");
  });
  c.memory_info = tried([&] {
    const auto [free, total] = device_allocator(type).getMemoryInfo(here.index());
    if (total == 0 || free > total) throw Missing(fmt::format("free {} of {} bytes", free, total));
    return std::string("free and total bytes");
  });
  c.pinned_host = tried([&] {
    auto* const allocator = at::getHostAllocator(type);
    if (allocator == nullptr) throw Missing("no host allocator is registered");
    constexpr size_t kBytes = 4096;
    auto block = allocator->allocate(kBytes);
    if (!block.device().is_cpu())
      throw Missing("its pinned memory is on " + block.device().str() + ", not on the host");
    std::memset(block.mutable_get(), 1, kBytes);
    return std::string("its host allocator");
  });
  return c;
}

}  // namespace plimsoll::device
