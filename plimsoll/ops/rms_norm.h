#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace plimsoll::ops {

/// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, which is as long as weight[D].
/// x is [..., D] with any strides (heads of a fused buffer); y is contiguous, in the dtype of x.
/// Computed in fp32 and rounded once; weight may be fp32 or the dtype of x.
/// Saved for backward: x, weight, and 1/rms of each row (fp32).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// sum = x + residual (rounded to their dtype), y = rms_norm(sum). Returns {sum, y}.
/// Backward is one pass: the gradient of sum is added to that of the norm, and the result serves
/// both x and residual. Saved for backward: sum, weight, 1/rms of each row (fp32).
std::pair<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual,
                                               const at::Tensor& weight, double eps);

}  // namespace plimsoll::ops
