#include "plimsoll/trainer/step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "plimsoll/ops/linear_cross_entropy.h"

namespace plimsoll::trainer {
namespace {

at::Tensor int_tensor(std::span<const int32_t> values) {
  at::Tensor t =
      at::empty({static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(at::kInt));
  std::copy(values.begin(), values.end(), t.mutable_data_ptr<int32_t>());
  return t;
}

}  // namespace

DeviceBatch to_device(const data::Batch& batch, c10::Device device) {
  DeviceBatch out;
  out.row.tokens = int_tensor(batch.tokens).to(device);
  out.row.positions = int_tensor(batch.positions).to(device);
  out.row.documents = int_tensor(batch.documents);
  out.targets = int_tensor(batch.targets).to(device);
  out.valid_tokens = batch.valid_tokens();
  return out;
}

at::Tensor loss_sum(const model::Decoder& decoder, const DeviceBatch& batch, int64_t loss_chunk) {
  at::Tensor hidden = model::forward(decoder, batch.row);
  const model::Parameter& head = decoder.head();
  return ops::linear_cross_entropy(hidden, head.master, head.copy(), batch.targets, loss_chunk);
}

StepResult train_step(const model::Decoder& decoder, optim::AdamW& optimizer,
                      const std::vector<DeviceBatch>& batches, double lr_factor,
                      int64_t loss_chunk) {
  StepResult result;
  for (const DeviceBatch& batch : batches) result.valid_tokens += batch.valid_tokens;
  const double scale = 1.0 / static_cast<double>(std::max<int64_t>(result.valid_tokens, 1));

  optimizer.zero_grad();
  for (const DeviceBatch& batch : batches) {
    at::Tensor loss = loss_sum(decoder, batch, loss_chunk) * scale;
    loss.backward();
    result.loss = result.loss.defined() ? result.loss + loss.detach() : loss.detach();
  }
  result.clipped = optimizer.clip(result.loss);
  optimizer.update(lr_factor, result.clipped);
  return result;
}

ValidationResult validate(const model::Decoder& decoder, data::BatchStream stream,
                          int64_t max_tokens, int64_t loss_chunk,
                          const std::function<bool()>& stop) {
  c10::NoGradGuard no_grad;
  const c10::Device device = decoder.tok_embeddings.master.device();
  ValidationResult result;
  double sum = 0;
  data::Batch batch;
  while (result.tokens < max_tokens && !(stop && stop()) && stream.next(batch)) {
    DeviceBatch on_device = to_device(batch, device);
    if (on_device.valid_tokens == 0) continue;
    sum += loss_sum(decoder, on_device, loss_chunk).item<double>();
    result.tokens += on_device.valid_tokens;
  }
  if (result.tokens > 0) result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace plimsoll::trainer
