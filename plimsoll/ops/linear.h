#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace plimsoll::ops {

// Common to every operator of this folder.
//
// N is the number of tokens of one packed row, D the width of the model. The compute dtype is that
// of the activations (fp32, bf16, or fp64 for checks of gradients); sums and statistics are fp32
// (fp64 for fp64). Each function below calls the dispatcher's operator `plimsoll::NAME`, which has
// an autograd form, a CPU form, a meta form (shapes only) and a plain form of ATen operators that
// serves every other device. Backwards are operators too (`plimsoll::NAME_backward`), so whoever
// looks below autograd sees operators only. A trainable `weight` is a leaf, usually an fp32 master;
// its gradient comes in `weight.grad_dtype()` where that is set, else in the weight's dtype.
// `compute` is a copy of the weight in the compute dtype that is used for the arithmetic; it gets
// no gradient; without it the weight is cast at every use. Gradients can be taken once:
// differentiating a gradient throws. For a fixed number of threads equal inputs give equal bits.
// All functions may be called from several threads. Wrong shapes, dtypes or values throw
// plimsoll::Error.

/// y[N, out] = x[N, in] * weight[out, in]^T, in the dtype of x.
/// Saved for backward: x (if weight needs a gradient), and `compute`, or weight where there is none
/// (if x needs one).
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& compute = {});

}  // namespace plimsoll::ops
