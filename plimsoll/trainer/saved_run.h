#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/model/decoder.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/trainer/run_config.h"

namespace plimsoll::trainer {

/// A trained model with its tokenizer, for using rather than training it further.
struct SavedRun {
  RunConfig config;
  text::Tokenizer tokenizer;
  model::Decoder decoder;
  int64_t step = 0;
  std::vector<std::string> notes;  ///< newer checkpoints that cannot be used, and why
};

/// Loads the newest complete checkpoint of a run folder, or that of `step`, on the CPU. Throws
/// UsageError when the folder holds no run or no such checkpoint.
SavedRun open_saved_run(const std::filesystem::path& folder, std::optional<int64_t> step = {});

}  // namespace plimsoll::trainer
