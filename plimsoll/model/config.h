#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/config/fields.h"

namespace plimsoll::model {

/// How the two halves of a head are paired by RoPE.
enum class RopeConvention {
  kInterleaved,  ///< adjacent elements (2i, 2i+1): Llama 3's own weights
  kRotateHalf,   ///< element i with element i + head_dim/2: Qwen 3 and Hugging Face files
};

/// Llama 3.1's stretching of the low RoPE frequencies.
struct RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
};

enum class InitKind { kLlama3, kQwen3 };

/// A dense decoder in plain numbers. Both architectures are one decoder with other numbers.
struct DecoderConfig {
  std::string architecture;  ///< "llama3" or "qwen3"
  std::string flavor;        ///< the preset it came from, e.g. "debugmodel", "8B"
  int64_t dim = 0;           ///< width of the residual stream
  int64_t layers = 0;
  int64_t heads = 0;     ///< query heads
  int64_t kv_heads = 0;  ///< key/value heads; query head i reads kv head i / (heads / kv_heads)
  int64_t head_dim = 0;  ///< need not be dim / heads
  int64_t ffn = 0;       ///< hidden width of the feed-forward
  int64_t vocab = 0;
  bool tied = false;     ///< the head is the embedding
  bool qk_norm = false;  ///< RMSNorm of each query and key head before RoPE
  double norm_eps = 1e-5;
  double rope_theta = 500000;
  int64_t rope_limit = 131072;  ///< longest position the model was made for
  RopeConvention rope = RopeConvention::kInterleaved;
  std::optional<RopeScaling> rope_scaling;
  InitKind init = InitKind::kLlama3;

  int64_t q_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  /// Number of trainable scalars; `without_embedding` leaves the embedding table out (a tied head
  /// is counted, since it does arithmetic).
  int64_t parameter_count() const;
  int64_t embedding_count() const { return vocab * dim; }
};

/// The preset "architecture/flavor". Throws UsageError naming the known ones.
DecoderConfig preset(const std::string& architecture, const std::string& flavor);

/// Names of the presets of an architecture, in size order; empty for an unknown one.
std::vector<std::string> flavors(const std::string& architecture);

/// What a recipe says about the model: a preset, and any number of it overridden.
struct ModelConfig {
  std::string architecture = "llama3";
  std::string flavor = "debugmodel";
  std::optional<int64_t> dim, layers, heads, kv_heads, head_dim, ffn, vocab, rope_limit;
  std::optional<double> rope_theta;
  std::optional<bool> tied;

  void describe(config::Fields& f);
  void validate(config::Problems& p) const;

  /// The preset with the overrides applied. Call after validate().
  DecoderConfig resolve() const;
  /// The same with every number set, those of the preset too: what a run keeps of itself. Call
  /// after validate().
  ModelConfig filled() const;
};

/// Throws Error naming the field and the values when the numbers do not make a decoder, e.g. heads
/// not divisible by kv_heads.
void check(const DecoderConfig& config);

}  // namespace plimsoll::model
