#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::device {

struct NumaNode {
  int index = 0;      ///< as the operating system counts
  std::string cpus;   ///< "0-3,8"
  int64_t bytes = 0;  ///< memory attached to it; 0 where unknown
};

/// The shape of this machine, as far as this process may use it.
struct Topology {
  int packages = 0;
  int cores = 0;
  int processors = 0;  ///< hardware threads
  std::vector<NumaNode> nodes;
};

/// Reads the machine, or a description in hwloc's synthetic form ("node:2 core:4 pu:2"), for tests.
/// Throws Error when neither can be read.
Topology read_topology(const std::string& synthetic = "");

}  // namespace plimsoll::device
