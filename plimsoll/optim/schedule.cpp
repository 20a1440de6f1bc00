#include "plimsoll/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll::optim {

void ScheduleConfig::describe(config::Fields& f) {
  f.field("warmup_steps", warmup_steps, "steps over which the rate rises linearly").at_least(0);
  f.field("decay_ratio", decay_ratio,
          "share of all steps spent decaying, 0 to 1; negative: everything after the warm-up")
      .at_most(1);
  f.choice("decay", decay, {"linear", "sqrt", "cosine"}, "shape of the decay");
  f.field("min_factor", min_factor, "share of the top rate that is left at the end")
      .at_least(0)
      .at_most(1);
}

double lr_factor(const ScheduleConfig& c, int64_t step, int64_t total) {
  int64_t warmup = std::clamp<int64_t>(c.warmup_steps, 0, total);
  int64_t decay =
      c.decay_ratio < 0
          ? total - warmup
          : static_cast<int64_t>(std::llround(static_cast<double>(total) * c.decay_ratio));
  decay = std::clamp<int64_t>(decay, 0, total - warmup);
  // One step more than warm-up and decay leave: the last step still learns something.
  int64_t stable = total + 1 - warmup - decay;
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step < warmup + stable || decay == 0) return 1;
  double p = static_cast<double>(step + 1 - (warmup + stable)) / static_cast<double>(decay);
  p = std::min(p, 1.0);
  double f = 1 - p;
  if (c.decay == "sqrt") f = 1 - std::sqrt(p);
  if (c.decay == "cosine") f = (1 + std::cos(std::numbers::pi * p)) / 2;
  return c.min_factor + (1 - c.min_factor) * f;
}

}  // namespace plimsoll::optim
