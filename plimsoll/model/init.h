#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "plimsoll/model/decoder.h"

namespace plimsoll::model {

/// Fills every master with its architecture's own initial values (design of the reference: normal
/// or truncated normal, depth-scaled output projections for Llama 3). The draws of the fused
/// matrices are made apart, as for separate wq, wk, wv, w1 and w3.
void initialise(Decoder& decoder, uint64_t seed);

}  // namespace plimsoll::model
