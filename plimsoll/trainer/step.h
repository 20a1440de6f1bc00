#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "plimsoll/data/batch_stream.h"
#include "plimsoll/model/decoder.h"
#include "plimsoll/optim/adamw.h"

namespace plimsoll::trainer {

/// One packed row with its targets, as tensors on the model's device.
struct DeviceBatch {
  model::PackedRow row;
  at::Tensor targets;        ///< [N] int32, data::kNoLoss where there is none
  int64_t valid_tokens = 0;  ///< targets that count
};

/// Copies a batch to the device (a plain, blocking copy).
DeviceBatch to_device(const data::Batch& batch, c10::Device device);

/// Sum of the token losses of one row, an fp32 scalar on the device. With gradients when they are
/// enabled. At most `loss_chunk` rows of logits exist at a time.
at::Tensor loss_sum(const model::Decoder& decoder, const DeviceBatch& batch, int64_t loss_chunk);

/// What a step came to, still on the device.
struct StepResult {
  at::Tensor loss;  ///< fp32 scalar: mean over the valid tokens of all batches of the step
  optim::Clipped clipped;
  int64_t valid_tokens = 0;
};

/// One optimizer step over the given micro-batches: forward, loss, backward for each, then clip,
/// finite check, update. Gradients are those of the mean over all valid tokens. Nothing is read by
/// the host. A non-finite loss or norm makes the update a no-op and sets clipped.found_inf.
StepResult train_step(const model::Decoder& decoder, optim::AdamW& optimizer,
                      const std::vector<DeviceBatch>& batches, double lr_factor,
                      int64_t loss_chunk);

/// Mean loss and number of tokens over rows of a validation stream; `stop` is asked before each
/// row.
struct ValidationResult {
  double loss = 0;
  int64_t tokens = 0;
};
ValidationResult validate(const model::Decoder& decoder, data::BatchStream stream,
                          int64_t max_tokens, int64_t loss_chunk,
                          const std::function<bool()>& stop = {});

}  // namespace plimsoll::trainer
