#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace plimsoll::ops {

/// How the fused buffer qkv[N, width()] is laid out: in each row all query heads, then all key
/// heads, then all value heads, head_dim numbers each. Query head i reads key/value head
/// i / (heads / kv_heads); heads must be a multiple of kv_heads.
struct HeadLayout {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// Which two numbers of a head rotate together: (0,1), (2,3), ... or (0,h/2), (1,h/2+1), ...
enum class RopePairs { kInterleaved, kHalves };

/// The frequency rule of Llama 3.1: wavelengths beyond original_limit / low_factor are divided by
/// `factor`, those below original_limit / high_factor stay, between them it is interpolated.
struct LlamaRopeScaling {
  double factor = 8.0;
  double low_factor = 1.0;
  double high_factor = 4.0;
  int64_t original_limit = 8192;
};

/// fp32 [limit, 2, head_dim / 2] on CPU: cosines, then sines, of position * frequency; computed in
/// double. Throws Error for an odd head_dim, a limit below 1 or a theta that is not positive.
at::Tensor rope_table(int64_t head_dim, int64_t limit, double theta,
                      const std::optional<LlamaRopeScaling>& scaling = {});

/// A copy of qkv[N, width] with query and key heads rotated by their position; values are copied.
/// table: of rope_table, on the device of qkv. positions: int32 or int64 [N]; on CPU a position
/// outside the table throws Error. Rotated in fp32, rounded once.
/// Saved for backward: table and positions only (backward rotates the other way).
at::Tensor rope(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                const HeadLayout& layout, RopePairs pairs);

/// A copy of qkv[N, width] with an RMSNorm over each query head (weight q_weight[head_dim]) and
/// each key head (k_weight[head_dim]); values are copied.
/// Saved for backward: qkv, both weights, 1/rms [N, heads + kv_heads] (fp32).
at::Tensor qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   const HeadLayout& layout, double eps);

}  // namespace plimsoll::ops
