#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "plimsoll/report/console.h"
#include "plimsoll/trainer/run_config.h"
#include "plimsoll/trainer/run_folder.h"

namespace plimsoll::trainer {

struct TrainResult {
  std::filesystem::path folder;
  int64_t step = 0;  ///< optimizer steps done
  double loss = 0;   ///< of the last step
  std::optional<double> validation_loss;
  bool interrupted = false;          ///< by a signal; what was asked to be saved is saved
  std::optional<int64_t> resumable;  ///< step of the newest checkpoint that this run knows of
};

/// Trains as the recipe says: opens the run folder, builds or restores everything, runs the steps,
/// validates, saves, reports. Everything said to the person goes through `console`. Throws
/// UsageError for a recipe that cannot be run and Error for what fails on the way (a non-finite
/// loss names its step); checkpoints saved before stay whole. One run per process at a time.
TrainResult train(const RunConfig& config, const Resume& resume, report::Console& console);

}  // namespace plimsoll::trainer
