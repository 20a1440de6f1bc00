#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "plimsoll/trainer/run_config.h"

namespace plimsoll::trainer {

/// Bytes that a run holds from its first to its last step, before any activation: known from the
/// recipe alone.
struct MemoryNeed {
  int64_t masters = 0;    ///< fp32 weights
  int64_t copies = 0;     ///< the same in the compute dtype, where that is another
  int64_t gradients = 0;  ///< as train.gradients says
  int64_t moments = 0;    ///< two, as optim.moments says

  int64_t total() const { return masters + copies + gradients + moments; }
  /// "96.4 GiB (weights 32.1 GiB, bf16 copies ..., gradients ..., moments ...)".
  std::string text() const;
};

MemoryNeed memory_need(const RunConfig& config, c10::ScalarType compute);

/// Throws Error when the need is above what `device` can hold at all (on the CPU: of the machine,
/// the container and memory.host_limit the smallest), before anything is allocated. A device that
/// does not tell its capacity refuses nothing here.
void require_room(const MemoryNeed& need, c10::Device device, const RunConfig& config);

}  // namespace plimsoll::trainer
