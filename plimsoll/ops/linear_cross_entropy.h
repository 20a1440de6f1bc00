#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace plimsoll::ops {

/// A target of this value takes no part in the loss.
inline constexpr int64_t kIgnoredTarget = -100;

/// Output head and cross-entropy in one: the sum over tokens of -log softmax(h weight^T)[target],
/// a scalar in fp32 (fp64 for fp64 h). h[N, D], weight[V, D], targets int32 or int64 [N]; on CPU a
/// target that is neither 0 .. V-1 nor kIgnoredTarget throws Error.
///
/// Works through chunk_rows tokens at a time (0: chosen by V so that a chunk's logits stay near
/// 256 MB), so logits [N, V] never exist. Where a gradient is needed it is computed in the same
/// pass, in place on the chunk's logits. Saved for backward: the gradients dh[N, D] in the dtype of
/// h and dweight[V, D] in the gradient dtype; backward multiplies them by the incoming gradient in
/// place and hands them out, so it can run once only (a second time throws Error).
at::Tensor linear_cross_entropy(const at::Tensor& h, const at::Tensor& weight,
                                const std::optional<at::Tensor>& compute, const at::Tensor& targets,
                                int64_t chunk_rows = 0);

}  // namespace plimsoll::ops
