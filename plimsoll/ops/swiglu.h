#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// silu(gate) * up for gate_up[N, 2F], whose rows hold F numbers of gate, then F of up: [N, F].
/// Saved for backward: gate_up (the activation is computed again).
at::Tensor swiglu(const at::Tensor& gate_up);

}  // namespace plimsoll::ops
