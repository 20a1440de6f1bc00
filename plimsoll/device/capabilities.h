#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::device {

/// Whether a device can do something. `present` is absent where only using the device would tell.
/// `how` says what was asked, or why it is not there; one line.
struct Capability {
  std::optional<bool> present;
  std::string how;
  bool yes() const { return present.value_or(false); }
};

struct Capabilities {
  Capability streams;          ///< more than one; without: same numbers, synchronous copies
  Capability events;           ///< order one stream after another
  Capability event_timing;     ///< time between two events
  Capability allocator_stats;  ///< c10::DeviceAllocator statistics; without: "n/a"
  Capability memory_info;      ///< free and total bytes
  Capability pinned_host;      ///< host memory that is pinned and really on the host
  Capability backward;         ///< torch's engine can run on it: a hooks object is registered

  /// Name and capability, in the order above, for printing.
  std::vector<std::pair<std::string, Capability>> rows() const;
};

/// What is known by asking torch's registries: creates no context and allocates nothing. Never
/// throws. All is absent by nature on the CPU, but backward.
Capabilities declared_capabilities(c10::Device device);

/// Uses the device to find out the rest: makes streams and events, allocates a little. Leaves the
/// current device and stream as they were. Never throws: a failure is a capability that is not
/// there, with the backend's reason.
Capabilities probe_capabilities(c10::Device device);

}  // namespace plimsoll::device
