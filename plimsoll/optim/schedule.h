#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/config/fields.h"

namespace plimsoll::optim {

/// Learning rate over a run: linear warm-up, a plateau, a decay at the end (warm-up-stable-decay).
/// decay_ratio 1 with "cosine" or "linear" gives the classic schedules without a plateau.
struct ScheduleConfig {
  int64_t warmup_steps = 200;
  double decay_ratio = -1;  ///< share of all steps spent decaying; negative: all but the warm-up
  std::string decay = "linear";  ///< linear | sqrt | cosine
  double min_factor = 0;         ///< share of the top rate that is left at the end

  void describe(config::Fields& f);
};

/// Share of the base learning rate used by 0-based `step` of a run of `total` steps, in [0, 1].
/// A warm-up or decay longer than the run is cut to fit it. Pure.
double lr_factor(const ScheduleConfig& config, int64_t step, int64_t total);

}  // namespace plimsoll::optim
