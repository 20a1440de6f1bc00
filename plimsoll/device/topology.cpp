#include "plimsoll/device/topology.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <array>
#include <memory>

#include "plimsoll/base/error.h"

namespace plimsoll::device {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

std::string list_of(hwloc_const_bitmap_t set) {
  std::array<char, 4096> text{};
  hwloc_bitmap_list_snprintf(text.data(), text.size(), set);
  return text.data();
}

}  // namespace

Topology read_topology(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    throw Error("the machine's topology cannot be read: no memory");
  const std::unique_ptr<hwloc_topology, Destroy> topology(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0)
    throw Error(fmt::format("not a synthetic topology: \"{}\"", synthetic));
  if (hwloc_topology_load(raw) != 0) throw Error("the machine's topology cannot be read");

  const auto count = [&](hwloc_obj_type_t type) {
    return std::max(0, hwloc_get_nbobjs_by_type(raw, type));
  };
  Topology out;
  out.packages = count(HWLOC_OBJ_PACKAGE);
  out.cores = count(HWLOC_OBJ_CORE);
  out.processors = count(HWLOC_OBJ_PU);
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    out.nodes.push_back({static_cast<int>(node->os_index), list_of(node->cpuset),
                         static_cast<int64_t>(node->attr->numanode.local_memory)});
  }
  return out;
}

}  // namespace plimsoll::device
