#pragma once

#include <filesystem>
#include <future>

#include "plimsoll/trainer/run_config.h"

namespace plimsoll::trainer {

/// Makes every path of a config absolute and its run.dir `folder`, so that the folder's config.toml
/// is a recipe that goes on with the run from wherever one stands.
void settle(RunConfig& config, const std::filesystem::path& folder);

/// Writes what a run folder holds beside its logs and checkpoints: the tokenizer's files and
/// config.toml, a settled config with the preset's numbers filled in. Writing through to the disk
/// takes longer than a short step, so a thread of its own does it while the first step runs.
class RunFiles {
 public:
  RunFiles(RunConfig config, std::filesystem::path folder);

  /// Waits until they are safely there, once. Throws the Error of the write that failed.
  void require_written();

 private:
  std::future<void> writing_;
};

}  // namespace plimsoll::trainer
