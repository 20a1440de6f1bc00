#include "plimsoll/generate/generator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/attention.h"
#include "plimsoll/ops/embedding.h"
#include "plimsoll/ops/linear.h"
#include "plimsoll/ops/rms_norm.h"

namespace plimsoll::generate {
namespace {

at::Tensor ids_on(std::span<const int32_t> ids, const c10::Device& device) {
  return at::tensor(at::ArrayRef<int32_t>(ids.data(), ids.size()),
                    at::TensorOptions().dtype(at::kInt))
      .to(device);
}

}  // namespace

KvCache::KvCache(const model::Decoder& decoder, int64_t capacity) : capacity_(capacity) {
  const model::DecoderConfig& c = decoder.config;
  const at::Tensor& like = decoder.tok_embeddings.value();
  auto options = at::TensorOptions().dtype(like.dtype()).device(like.device());
  for (int64_t i = 0; i < c.layers; ++i) {
    keys_.push_back(at::empty({capacity, c.kv_heads, c.head_dim}, options));
    values_.push_back(at::empty({capacity, c.kv_heads, c.head_dim}, options));
  }
}

at::Tensor extend(const model::Decoder& d, KvCache& cache, std::span<const int32_t> tokens) {
  c10::NoGradGuard no_grad;
  const model::DecoderConfig& c = d.config;
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t begin = cache.length_;
  const int64_t end = begin + n;
  if (n == 0)
    throw Error("nothing to extend the context with", "give a prompt of one token or more");
  if (end > cache.capacity_ || end > d.rope_table.size(0)) {
    throw Error(
        fmt::format("a context of {} tokens does not fit the {} this model has positions for", end,
                    std::min(cache.capacity_, d.rope_table.size(0))),
        "shorten the prompt");
  }
  if (begin > 0 && n > 1) throw Error("only a first call takes several tokens at once");

  const c10::Device device = d.tok_embeddings.master.device();
  at::Tensor positions = at::arange(begin, end, at::TensorOptions().dtype(at::kInt)).to(device);
  const int32_t whole[] = {0, static_cast<int32_t>(n)};
  at::Tensor documents = ids_on(whole, c10::kCPU);

  at::Tensor x =
      ops::embedding(ids_on(tokens, device), d.tok_embeddings.master, d.tok_embeddings.copy());
  at::Tensor h = ops::rms_norm(x, d.blocks.front().attention_norm.master, c.norm_eps);
  for (size_t i = 0; i < d.blocks.size(); ++i) {
    const model::Block& b = d.blocks[i];
    at::Tensor qkv = model::rotated_qkv(d, b.attention, h, positions);
    at::Tensor heads = qkv.view({n, c.heads + 2 * c.kv_heads, c.head_dim});
    cache.keys_[i].narrow(0, begin, n).copy_(heads.narrow(1, c.heads, c.kv_heads));
    cache.values_[i].narrow(0, begin, n).copy_(heads.narrow(1, c.heads + c.kv_heads, c.kv_heads));
    at::Tensor mixed;
    if (begin == 0) {
      mixed = ops::attention(qkv, documents, model::head_layout(c));
    } else {
      // One query over everything so far: no mask.
      auto as_heads = [](const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(0); };
      mixed = at::scaled_dot_product_attention(as_heads(heads.narrow(1, 0, c.heads)),
                                               as_heads(cache.keys_[i].narrow(0, 0, end)),
                                               as_heads(cache.values_[i].narrow(0, 0, end)), {},
                                               0.0, false, {}, c.heads != c.kv_heads)
                  .reshape({n, c.q_width()});
    }
    at::Tensor attended = ops::linear(mixed, b.attention.wo.master, b.attention.wo.copy());
    std::tie(x, h) = ops::add_rms_norm(x, attended, b.ffn_norm.master, c.norm_eps);
    const model::Parameter& next =
        i + 1 < d.blocks.size() ? d.blocks[i + 1].attention_norm : d.norm;
    std::tie(x, h) =
        ops::add_rms_norm(x, model::feed_forward(b.feed_forward, h), next.master, c.norm_eps);
  }
  cache.length_ = end;
  return model::logits(d, h.narrow(0, n - 1, 1)).view({c.vocab}).to(at::kFloat);
}

int64_t context_of(const model::Decoder& decoder) {
  return decoder.rope_table.size(0);
}

void check(const Request& request, const model::Decoder& decoder) {
  check(request.sampling);
  if (request.max_tokens < 0) {
    throw UsageError(fmt::format("max-tokens = {}: must not be negative", request.max_tokens));
  }
  if (request.prompt.empty()) {
    throw UsageError("the prompt has no tokens", "give a text or a BOS token");
  }
  const auto length = static_cast<int64_t>(request.prompt.size());
  const int64_t limit = context_of(decoder);
  if (length > limit) {
    throw UsageError(
        fmt::format("the prompt has {} tokens, but the model has positions for {} only "
                    "(train.max_context of its run)",
                    length, limit),
        "shorten the prompt, or train with a larger train.max_context");
  }
  for (int32_t id : request.prompt) {
    if (id < 0 || id >= decoder.config.vocab) {
      throw UsageError(
          fmt::format("the prompt has token {}, this model 0 to {}", id, decoder.config.vocab - 1));
    }
  }
}

Generated generate(const model::Decoder& decoder, const Request& request,
                   const std::function<bool(int32_t)>& on_token) {
  check(request, decoder);
  const int64_t limit = context_of(decoder);
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  KvCache cache(decoder, prompt + std::min(limit - prompt, request.max_tokens));
  std::mt19937_64 random(request.sampling.seed);
  at::Tensor logits = extend(decoder, cache, request.prompt);
  Generated out;
  while (out.tokens < request.max_tokens) {
    at::Tensor host = logits.to(at::kCPU);
    int32_t id = sample({host.const_data_ptr<float>(), static_cast<size_t>(host.numel())},
                        request.sampling, random);
    if (request.stop && id == *request.stop) {
      out.end = End::kStop;
      break;
    }
    ++out.tokens;
    if (!on_token(id)) {
      out.end = End::kCaller;
      break;
    }
    if (out.tokens == request.max_tokens) break;
    if (cache.length() == limit) {
      out.end = End::kContext;
      break;
    }
    logits = extend(decoder, cache, {&id, 1});
  }
  return out;
}

}  // namespace plimsoll::generate
