#include "plimsoll/trainer/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "plimsoll/device/memory_monitor.h"

namespace plimsoll::trainer {

std::string MemoryNeed::text() const {
  std::string parts = fmt::format("weights {}", format_bytes(masters));
  if (copies > 0) parts += fmt::format(", bf16 copies {}", format_bytes(copies));
  return fmt::format("{} ({}, gradients {}, moments {})", format_bytes(total()), parts,
                     format_bytes(gradients), format_bytes(moments));
}

MemoryNeed memory_need(const RunConfig& config, c10::ScalarType compute) {
  const int64_t count = config.model.resolve().parameter_count();
  const auto bytes = [&](const std::string& dtype) { return count * (dtype == "bf16" ? 2 : 4); };
  return {.masters = count * 4,
          .copies = compute == c10::kBFloat16 ? count * 2 : 0,
          .gradients = bytes(config.train.gradients),
          .moments = 2 * bytes(config.optim.moments)};
}

void require_room(const MemoryNeed& need, c10::Device device, const RunConfig& config) {
  std::optional<int64_t> room = device::MemoryMonitor(device).read().capacity;
  std::string whose = fmt::format("{} has", device.is_cpu() ? "this machine" : device.str());
  if (device.is_cpu() && config.memory.host_limit &&
      static_cast<int64_t>(*config.memory.host_limit) < room.value_or(INT64_MAX)) {
    room = static_cast<int64_t>(*config.memory.host_limit);
    whose = "memory.host_limit is";
  }
  if (!room || need.total() <= *room) return;
  throw Error(fmt::format("the model does not fit: before any activation it needs {}, {} {}",
                          need.text(), whose, format_bytes(*room)),
              "a smaller model, train.gradients = \"bf16\" or optim.moments = \"bf16\" needs less");
}

}  // namespace plimsoll::trainer
