#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/model/decoder.h"

namespace plimsoll::model {

/// Rows [first, first + rows) of one of our parameters hold one tensor of a Hugging Face folder.
struct HfPiece {
  std::string name;  ///< e.g. "model.layers.3.self_attn.q_proj.weight"
  int64_t first = 0;
  int64_t rows = 0;
  int64_t paired_heads = 0;  ///< not 0: that many heads whose rows are paired the other way
};

/// The pieces of a parameter in row order. Ours are fused (wqkv, w13), Hugging Face's are not.
std::vector<HfPiece> hf_pieces(const DecoderConfig& config, const Parameter& parameter);

/// Reorders the rows of `heads` heads from rotate-half pairing (Hugging Face) to adjacent pairing
/// (ours for Llama 3), and back. Shapes stay.
at::Tensor rows_from_rotate_half(const at::Tensor& rows, int64_t heads);
at::Tensor rows_to_rotate_half(const at::Tensor& rows, int64_t heads);

/// A tensor shaped like the parameter (its value, its gradient) as Hugging Face tensors.
std::vector<std::pair<std::string, at::Tensor>> to_hf(const DecoderConfig& config,
                                                      const Parameter& parameter,
                                                      const at::Tensor& values);

/// Fills every master from tensors asked for by their Hugging Face names, then refreshes the
/// compute copies. `get` throws for a name it does not have; a shape that does not fit is an Error
/// naming the tensor and both shapes.
void load_hf(Decoder& decoder, const std::function<at::Tensor(const std::string&)>& get);

}  // namespace plimsoll::model
