#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "plimsoll/ops/heads.h"

namespace plimsoll::ops {

/// Causal attention inside each document: o[N, heads * head_dim] of qkv[N, width] (HeadLayout).
/// documents: int32 [count + 1] on CPU whatever the device of qkv: offsets 0 = d0 <= d1 <= ... = N;
/// token i attends to tokens d_k .. i of its own document k. scale: 1 / sqrt(head_dim) if absent.
/// Saved for backward: qkv, o, documents, and the log of the sum of exponentials of each row,
/// [heads, N] fp32.
at::Tensor attention(const at::Tensor& qkv, const at::Tensor& documents, const HeadLayout& layout,
                     std::optional<double> scale = {});

}  // namespace plimsoll::ops
