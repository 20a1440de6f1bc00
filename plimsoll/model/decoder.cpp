#include "plimsoll/model/decoder.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/model/init.h"
#include "plimsoll/ops/attention.h"
#include "plimsoll/ops/embedding.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/linear.h"
#include "plimsoll/ops/rms_norm.h"
#include "plimsoll/ops/swiglu.h"

namespace plimsoll::model {
namespace {

at::Tensor project(const at::Tensor& x, const Parameter& p) {
  return ops::linear(x, p.master, p.copy());
}

}  // namespace

ops::HeadLayout head_layout(const DecoderConfig& c) {
  return {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim};
}

at::Tensor rotated_qkv(const Decoder& decoder, const Attention& a, const at::Tensor& x,
                       const at::Tensor& positions) {
  const DecoderConfig& c = decoder.config;
  at::Tensor qkv = project(x, a.wqkv);
  if (c.qk_norm) {
    qkv = ops::qk_norm(qkv, a.q_norm.master, a.k_norm.master, head_layout(c), c.norm_eps);
  }
  return ops::rope(qkv, decoder.rope_table, positions, head_layout(c),
                   c.rope == RopeConvention::kInterleaved ? ops::RopePairs::kInterleaved
                                                          : ops::RopePairs::kHalves);
}

at::Tensor feed_forward(const FeedForward& f, const at::Tensor& x) {
  return project(ops::swiglu(project(x, f.w13)), f.w2);
}

namespace {

at::Tensor attend(const Decoder& decoder, const Attention& a, const at::Tensor& x,
                  const PackedRow& row) {
  at::Tensor qkv = rotated_qkv(decoder, a, x, row.positions);
  return project(ops::attention(qkv, row.documents, head_layout(decoder.config)), a.wo);
}

template <typename DecoderType, typename Out>
void visit(DecoderType& d, Out& out) {
  auto add = [&](auto& parameter) {
    if (parameter.defined()) out.push_back(&parameter);
  };
  add(d.tok_embeddings);
  for (auto& b : d.blocks) {
    add(b.attention_norm);
    add(b.attention.wqkv);
    add(b.attention.q_norm);
    add(b.attention.k_norm);
    add(b.attention.wo);
    add(b.ffn_norm);
    add(b.feed_forward.w13);
    add(b.feed_forward.w2);
  }
  add(d.norm);
  add(d.output);
}

}  // namespace

std::vector<Parameter*> parameters(Decoder& decoder) {
  std::vector<Parameter*> out;
  visit(decoder, out);
  return out;
}

std::vector<const Parameter*> parameters(const Decoder& decoder) {
  std::vector<const Parameter*> out;
  visit(decoder, out);
  return out;
}

Decoder build(const DecoderConfig& config, const BuildOptions& options) {
  check(config);
  if (options.max_context < 1 || options.max_context > config.rope_limit) {
    throw UsageError(fmt::format("train.max_context = {}: this model takes positions up to {}",
                                 options.max_context, config.rope_limit),
                     "lower train.max_context, or raise model.rope_limit if the weights allow it");
  }
  const at::ScalarType master = options.compute == at::kDouble ? at::kDouble : at::kFloat;
  const bool copies = options.compute != master;
  auto make = [&](const std::string& name, std::vector<int64_t> shape, bool matrix) {
    Parameter p;
    p.name = name;
    auto on_device = at::TensorOptions().device(options.device);
    p.master = at::empty(shape, on_device.dtype(master)).set_requires_grad(true);
    if (copies && matrix) p.compute = at::empty(shape, on_device.dtype(options.compute));
    return p;
  };

  Decoder d;
  d.config = config;
  const DecoderConfig& c = config;
  d.tok_embeddings = make("tok_embeddings.weight", {c.vocab, c.dim}, true);
  for (int64_t i = 0; i < c.layers; ++i) {
    std::string prefix = fmt::format("layers.{}.", i);
    Block b;
    b.attention_norm = make(prefix + "attention_norm.weight", {c.dim}, false);
    b.attention.wqkv = make(prefix + "attention.wqkv.weight", {c.qkv_width(), c.dim}, true);
    if (c.qk_norm) {
      b.attention.q_norm = make(prefix + "attention.q_norm.weight", {c.head_dim}, false);
      b.attention.k_norm = make(prefix + "attention.k_norm.weight", {c.head_dim}, false);
    }
    b.attention.wo = make(prefix + "attention.wo.weight", {c.dim, c.q_width()}, true);
    b.ffn_norm = make(prefix + "ffn_norm.weight", {c.dim}, false);
    b.feed_forward.w13 = make(prefix + "feed_forward.w13.weight", {2 * c.ffn, c.dim}, true);
    b.feed_forward.w2 = make(prefix + "feed_forward.w2.weight", {c.dim, c.ffn}, true);
    d.blocks.push_back(std::move(b));
  }
  d.norm = make("norm.weight", {c.dim}, false);
  if (!c.tied) d.output = make("output.weight", {c.vocab, c.dim}, true);

  std::optional<ops::LlamaRopeScaling> scaling;
  if (c.rope_scaling) {
    scaling = ops::LlamaRopeScaling{
        .factor = c.rope_scaling->factor,
        .low_factor = c.rope_scaling->low_freq_factor,
        .high_factor = c.rope_scaling->high_freq_factor,
        .original_limit = static_cast<int64_t>(c.rope_scaling->original_context)};
  }
  d.rope_table =
      ops::rope_table(c.head_dim, options.max_context, c.rope_theta, scaling).to(options.device);
  if (options.device.type() != c10::kMeta) {
    initialise(d, options.seed);
    refresh_compute(d);
  }
  return d;
}

void refresh_compute(Decoder& decoder) {
  c10::NoGradGuard no_grad;
  for (Parameter* p : parameters(decoder)) {
    if (p->compute.defined()) p->compute.copy_(p->master);
  }
}

at::Tensor forward(const Decoder& d, const PackedRow& row) {
  const double eps = d.config.norm_eps;
  at::Tensor x = ops::embedding(row.tokens, d.tok_embeddings.master, d.tok_embeddings.copy());
  at::Tensor h = ops::rms_norm(x, d.blocks.front().attention_norm.master, eps);
  for (size_t i = 0; i < d.blocks.size(); ++i) {
    const Block& b = d.blocks[i];
    std::tie(x, h) = ops::add_rms_norm(x, attend(d, b.attention, h, row), b.ffn_norm.master, eps);
    const Parameter& next = i + 1 < d.blocks.size() ? d.blocks[i + 1].attention_norm : d.norm;
    std::tie(x, h) = ops::add_rms_norm(x, feed_forward(b.feed_forward, h), next.master, eps);
  }
  return h;
}

at::Tensor logits(const Decoder& decoder, const at::Tensor& hidden) {
  return project(hidden, decoder.head());
}

}  // namespace plimsoll::model
