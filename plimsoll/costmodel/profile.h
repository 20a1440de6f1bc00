#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/costmodel/job.h"

namespace plimsoll::costmodel {

/// What a device and its host cost: times in nanoseconds, rates in units a second. The files are in
/// profiles/, where each figure has its source.
struct Profile {
  std::string name;
  std::uint64_t capacity = 0;  ///< bytes of device memory

  // The device.
  std::map<std::string, double, std::less<>> flops;  ///< per second by dtype ("fp32", "bf16", ...)
  double memory_bandwidth = 0;                       ///< bytes a second, reads and writes together
  Nanoseconds launch = 0;                            ///< on the device, of each kernel

  // The link to the host, and to a peer.
  double link_in = 0, link_out = 0;  ///< bytes a second: host to device, device to host
  double link_peer = 0;              ///< device to device
  Nanoseconds copy_latency = 0;
  double pageable_factor = 1;  ///< how many times longer a pageable transfer takes
  double duplex_factor = 1;    ///< of a copy that starts while the other direction is busy
  int copy_lanes = 2;          ///< 2: one in each direction; 1: both share one

  // The host.
  Nanoseconds enqueue = 0;      ///< each task, record or wait put into a stream
  Nanoseconds query = 0;        ///< less than 1 counts as 1, or a polling loop would never end
  Nanoseconds wait = 0;         ///< each wait of the host, besides the waiting
  Nanoseconds host_access = 0;  ///< what is charged for telling of a read or write by the host
  int launch_queue = 0;         ///< tasks a stream takes before the host waits; 0: no bound

  // Memory.
  Nanoseconds allocate = 0;         ///< each allocation
  Nanoseconds allocate_device = 0;  ///< on top, when the device itself is asked
  Nanoseconds release_device = 0;   ///< giving cached memory back
  Nanoseconds pin = 0;              ///< a pinned allocation that is not served from the cache
  double pin_bandwidth = 0;         ///< bytes a second pinned, on top

  /// Operations a second for a dtype. A dtype that has no row is computed as fp32.
  double peak_flops(std::string_view dtype) const;
};

/// Reads a profile; `file` is its name in messages. Throws Error with the line for what is not
/// TOML, for a key that is missing, unknown, of a wrong type or out of range.
Profile parse_profile(const std::string& toml, const std::string& file);

/// The profiles that are part of the library, by file name without ".toml".
std::vector<std::string> builtin_profile_names();

/// One of them; `name` may also be the path of a .toml file. Error for an unknown name lists the
/// known ones.
Profile load_profile(const std::string& name);

/// Nanoseconds that `amount` takes at `rate` a second, to the nearest. 0 for nothing.
Nanoseconds duration(double amount, double rate);

/// A kernel: the larger of its arithmetic and its memory traffic, and the launch.
Nanoseconds kernel_cost(const Profile& profile, double flops, std::string_view dtype, double bytes);

}  // namespace plimsoll::costmodel
