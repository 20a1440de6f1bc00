#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/model/config.h"
#include "plimsoll/ops/heads.h"

namespace plimsoll::model {

/// A trainable tensor and the copy of it that arithmetic reads.
struct Parameter {
  std::string name;    ///< e.g. "layers.3.attention.wqkv.weight"
  at::Tensor master;   ///< leaf that requires grad; the optimizer's fp32 truth
  at::Tensor compute;  ///< the same values in the compute dtype; undefined when the master is read

  bool defined() const { return master.defined(); }
  /// What a reader that wants values in the compute dtype uses.
  const at::Tensor& value() const { return compute.defined() ? compute : master; }
  /// The copy as operators take it.
  std::optional<at::Tensor> copy() const {
    return compute.defined() ? std::optional(compute) : std::nullopt;
  }
};

/// Rows of wqkv: all query heads, then all key heads, then all value heads, head_dim rows each.
struct Attention {
  Parameter wqkv;            ///< [(heads + 2 kv_heads) * head_dim, dim]
  Parameter wo;              ///< [dim, heads * head_dim]
  Parameter q_norm, k_norm;  ///< [head_dim]; undefined without qk_norm
};

/// Rows of w13: the gate (w1), then the up projection (w3).
struct FeedForward {
  Parameter w13;  ///< [2 * ffn, dim]
  Parameter w2;   ///< [dim, ffn]
};

struct Block {
  Parameter attention_norm;  ///< [dim]
  Attention attention;
  Parameter ffn_norm;  ///< [dim]
  FeedForward feed_forward;
};

/// One packed row of tokens: documents lie behind one another, nothing is padded.
struct PackedRow {
  at::Tensor tokens;     ///< [N] int32, on the model's device
  at::Tensor positions;  ///< [N] int32, on the model's device; 0 starts a document
  at::Tensor documents;  ///< [D + 1] int32 on the CPU: offsets of the documents, 0 first, N last
};

/// A decoder is its numbers and its tensors; functions below do things to it.
struct Decoder {
  DecoderConfig config;
  Parameter tok_embeddings;  ///< [vocab, dim]
  std::vector<Block> blocks;
  Parameter norm;         ///< [dim]
  Parameter output;       ///< [vocab, dim]; undefined when tied
  at::Tensor rope_table;  ///< fp32, one row a position; not a parameter, not saved

  const Parameter& head() const { return output.defined() ? output : tok_embeddings; }
};

struct BuildOptions {
  c10::Device device = c10::kCPU;
  at::ScalarType compute = at::kFloat;  ///< dtype of the arithmetic: float, bfloat16 (or double)
  int64_t max_context = 2048;           ///< rows of the RoPE table; at most config.rope_limit
  uint64_t seed = 42;
};

/// Allocates and initialises a decoder. Each parameter draws from a generator of its own, seeded by
/// (seed, name), so values depend neither on the device nor on the order of creation. On the meta
/// device nothing is allocated. Throws UsageError when the numbers make no decoder or max_context
/// exceeds the model's RoPE limit.
Decoder build(const DecoderConfig& config, const BuildOptions& options);

/// All parameters in the fixed order in which everything visits them: embedding, blocks, norm,
/// head.
std::vector<Parameter*> parameters(Decoder& decoder);
std::vector<const Parameter*> parameters(const Decoder& decoder);

/// Refreshes every compute copy from its master (after loading; the optimizer does it by itself).
void refresh_compute(Decoder& decoder);

/// Hidden states after the final norm, [N, dim] in the compute dtype; the head is not applied, so
/// that the loss can do it in chunks. Attention is causal inside each document.
at::Tensor forward(const Decoder& decoder, const PackedRow& row);

/// Layout of the fused qkv buffer, as ops/ wants it.
ops::HeadLayout head_layout(const DecoderConfig& config);

/// Projected, normed (if configured) and rotated qkv [N, qkv_width] of normed inputs x [N, dim]:
/// what attention reads, here and in generate/, which keeps keys and values of earlier tokens.
at::Tensor rotated_qkv(const Decoder& decoder, const Attention& attention, const at::Tensor& x,
                       const at::Tensor& positions);

/// The feed-forward's output [N, dim] for normed inputs x [N, dim]; the residual is added by the
/// next norm.
at::Tensor feed_forward(const FeedForward& f, const at::Tensor& x);

/// Logits [n, vocab] of given hidden states, in the compute dtype.
at::Tensor logits(const Decoder& decoder, const at::Tensor& hidden);

}  // namespace plimsoll::model
