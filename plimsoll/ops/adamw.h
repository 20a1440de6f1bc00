#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace plimsoll::ops {

/// What one call of adamw_ works on. All lists have one entry per parameter, equal in shape and
/// contiguous. All lie on one device.
struct AdamWTensors {
  std::vector<at::Tensor> params;      // fp32 (fp64 in checks), updated
  std::vector<at::Tensor> grads;       // fp32 or bf16
  std::vector<at::Tensor> exp_avg;     // fp32 or bf16, updated
  std::vector<at::Tensor> exp_avg_sq;  // fp32 or bf16, updated
  std::vector<at::Tensor> compute;     // empty, or copies of params in any of the dtypes, refreshed
};

struct AdamWScalars {
  at::Tensor lr;    // fp32 scalar
  at::Tensor step;  // fp32 scalar, the number of this update: 1 for the first
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::optional<at::Tensor> grad_scale =
      {};  // fp32 scalar: gradients are multiplied by it (clipping)
  std::optional<at::Tensor> found_inf = {};  // fp32 scalar: not 0 means that nothing at all changes
};

/// One step of AdamW with decoupled weight decay, as torch's fused form computes it:
///   p -= lr * decay * p;  m += (1-b1) (g-m);  v = b2 v + (1-b2) g^2
///   p -= lr / (1-b1^step) * m / (sqrt(v) / sqrt(1-b2^step) + eps)
/// in fp32; bf16 moments and copies are rounded to nearest even. Scalars are read on the device
/// only (the CPU form reads them on the host). Gradients are left as they are. No autograd.
void adamw_(const AdamWTensors& tensors, const AdamWScalars& scalars);

/// sqrt of the sum of squares of all numbers of all tensors, an fp32 scalar on their device; summed
/// in double, so equal bits for equal inputs. A NaN or infinity gives one. fp32, bf16 or fp64.
/// Throws Error for an empty list.
at::Tensor grad_norm(const std::vector<at::Tensor>& grads);

}  // namespace plimsoll::ops
