#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/config/fields.h"
#include "plimsoll/data/config.h"
#include "plimsoll/model/config.h"
#include "plimsoll/optim/config.h"

namespace plimsoll::trainer {

struct RunSection {
  std::string name;  ///< default: the recipe's file name
  std::string dir;   ///< run folder; empty: a fresh runs/NAME-N
  int64_t seed = 42;

  void describe(config::Fields& f);
  void validate(config::Problems& p) const;
};

struct TrainSection {
  int64_t steps = 1000;                    ///< length of the schedule
  std::optional<int64_t> stop_after;       ///< stop earlier, schedule unchanged
  int64_t tokens_per_batch = 16384;        ///< tokens of one packed row (a micro-batch)
  std::optional<int64_t> tokens_per_step;  ///< a multiple of tokens_per_batch; default: one batch
  int64_t max_context = 2048;              ///< longest document segment, in tokens
  std::string precision = "auto";          ///< auto | bf16 | fp32
  std::string gradients = "fp32";          ///< fp32 | bf16
  int64_t loss_chunk = 2048;               ///< rows of logits alive at a time
  int64_t validation_interval = 0;         ///< steps between validations; 0: only at the end
  int64_t validation_tokens = 131072;      ///< tokens of a validation, at most
  int64_t sample_tokens = 0;               ///< length of the text sample at the end; 0: none
  std::string sample_prompt;               ///< what the sample continues
  bool deterministic = false;

  void describe(config::Fields& f);
  void validate(config::Problems& p) const;

  int64_t batches_per_step() const {
    return tokens_per_step.value_or(tokens_per_batch) / tokens_per_batch;
  }
};

struct MemorySection {
  std::optional<uint64_t> host_limit;  ///< bytes CPU tensors may hold; unset: what the machine has

  void describe(config::Fields& f);
};

struct CheckpointSection {
  int64_t interval = 0;           ///< steps between checkpoints; 0: only the last
  bool last = true;               ///< save after the last step
  int64_t keep = 3;               ///< newest checkpoints kept; 0: all
  bool async = true;              ///< write in the background from a snapshot
  std::string on_error = "stop";  ///< stop | continue

  void describe(config::Fields& f);
};

struct DeviceSection {
  std::string name = "auto";         ///< auto | cpu | NAME[:INDEX][,option=value...]
  std::vector<std::string> plugins;  ///< shared libraries that bring a torch backend
  std::optional<int64_t> threads;    ///< CPU threads; unset: torch's choice

  void describe(config::Fields& f);
};

struct MetricsSection {
  int64_t interval = 10;  ///< steps between step lines and TensorBoard points
  bool tensorboard = true;

  void describe(config::Fields& f);
};

/// A whole recipe. Each section is owned by the component that reads it.
struct RunConfig {
  RunSection run;
  model::ModelConfig model;
  data::DataConfig data;
  TrainSection train;
  optim::OptimConfig optim;
  MemorySection memory;
  CheckpointSection checkpoint;
  DeviceSection device;
  MetricsSection metrics;

  void describe(config::Fields& f);
};

/// Reads a recipe and applies `sets` ("section.key=value"). Throws UsageError with every problem.
RunConfig read_recipe(const std::filesystem::path& recipe, const std::vector<std::string>& sets);

}  // namespace plimsoll::trainer
