#pragma once

#include "sim/driver/machine.h"

namespace plimsoll::sim {

/// Round figures, so that tests can say times: 10 bytes a nanosecond over the link.
inline costmodel::Profile tiny_profile(std::uint64_t capacity = 64 << 20) {
  costmodel::Profile profile;
  profile.name = "tiny";
  profile.capacity = capacity;
  profile.flops = {{"fp32", 1e12}};
  profile.memory_bandwidth = 1e12;
  profile.link_in = profile.link_out = profile.link_peer = 10e9;
  profile.copy_latency = 1000;
  profile.pageable_factor = 4;
  profile.enqueue = 700;
  profile.query = 700;
  profile.wait = 1500;
  profile.host_access = 100;
  profile.allocate = 300;
  profile.allocate_device = 20000;
  profile.release_device = 30000;
  profile.pin = 50000;
  profile.pin_bandwidth = 4e9;
  return profile;
}

/// The same with a host that costs nothing.
inline costmodel::Profile free_host_profile(std::uint64_t capacity = 64 << 20) {
  costmodel::Profile profile = tiny_profile(capacity);
  profile.enqueue = profile.wait = profile.host_access = profile.allocate = 0;
  profile.allocate_device = profile.release_device = 0;
  return profile;
}

}  // namespace plimsoll::sim
