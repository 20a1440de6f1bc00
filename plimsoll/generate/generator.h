#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plimsoll/generate/sampling.h"
#include "plimsoll/model/decoder.h"

namespace plimsoll::generate {

/// Keys and values of the tokens seen so far, one pair of tensors a block.
/// Memory: 2 * blocks * capacity * kv_heads * head_dim elements of the compute dtype.
class KvCache {
 public:
  KvCache(const model::Decoder& decoder, int64_t capacity);

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }

 private:
  friend at::Tensor extend(const model::Decoder&, KvCache&, std::span<const int32_t>);
  std::vector<at::Tensor> keys_, values_;  // [capacity, kv_heads, head_dim]
  int64_t length_ = 0;
  int64_t capacity_;
};

/// Runs the decoder over `tokens` that follow what the cache holds, and remembers their keys and
/// values. Returns the logits [vocab] (fp32) after the last one. A first call may have any number
/// of tokens, later ones one each. Throws Error when the cache or the RoPE table is full.
at::Tensor extend(const model::Decoder& decoder, KvCache& cache, std::span<const int32_t> tokens);

struct Request {
  std::vector<int32_t> prompt;  ///< at least one token
  int64_t max_tokens = 200;
  std::optional<int32_t> stop;  ///< generation ends after this token, which is not reported
  SamplingConfig sampling;
};

/// Why a text ended.
enum class End {
  kStop,       ///< the stop token
  kMaxTokens,  ///< as many as were asked for
  kContext,    ///< the model has no more positions
  kCaller,     ///< on_token said so
};

struct Generated {
  int64_t tokens = 0;  ///< reported ones
  End end = End::kMaxTokens;
};

/// Positions of the model's context: what prompt and continuation share.
int64_t context_of(const model::Decoder& decoder);

/// Throws UsageError when the request cannot be met: no prompt, one longer than the model has
/// positions for, tokens it does not know, odd sampling values.
void check(const Request& request, const model::Decoder& decoder);

/// Continues the prompt token by token; `on_token` gets each one and may return false to stop.
/// Stops by itself where the model's context ends. The same request on the same decoder gives the
/// same tokens.
Generated generate(const model::Decoder& decoder, const Request& request,
                   const std::function<bool(int32_t)>& on_token);

}  // namespace plimsoll::generate
