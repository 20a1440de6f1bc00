#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace plimsoll::ops {

/// Row ids[i] of weight[V, D] for each i: [N, D] in the dtype of `compute`, else of weight.
/// ids: int32 or int64 [N]. On CPU an id outside 0 .. V-1 throws Error with its place and value.
/// Backward: a dense [V, D] gradient, summed in fp32 in the order of the tokens.
/// Saved for backward: ids.
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight,
                     const std::optional<at::Tensor>& compute = {});

}  // namespace plimsoll::ops
