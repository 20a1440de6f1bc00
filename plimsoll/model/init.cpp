#include "plimsoll/model/init.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "plimsoll/tensor/generator.h"
#include "plimsoll/tensor/normal.h"

namespace plimsoll::model {
namespace {

using tensor::Normal;

// Draws on the CPU in fp32, then copies where the master is another: numbers must not depend on the
// device.
void draw(const at::Tensor& destination, const Normal& normal, uint64_t seed,
          const std::string& purpose) {
  if (destination.is_meta()) return;
  const bool in_place = destination.is_cpu() && destination.scalar_type() == at::kFloat &&
                        destination.is_contiguous();
  const at::Tensor values =
      in_place ? destination
               : at::empty(destination.sizes(), at::TensorOptions().dtype(at::kFloat));
  tensor::fill_normal(values, normal, tensor::seed_for(seed, "init/" + purpose));
  if (!in_place) destination.copy_(values);
}

void fill_one(const Parameter& p) {
  if (p.defined() && !p.master.is_meta()) p.master.fill_(1);
}

}  // namespace

void initialise(Decoder& decoder, uint64_t seed) {
  c10::NoGradGuard no_grad;
  const DecoderConfig& c = decoder.config;
  const bool llama = c.init == InitKind::kLlama3;
  const Normal inner{0.02, llama ? std::optional<double>(2.0) : std::nullopt};

  auto draw_rows = [&](const Parameter& p, int64_t first, int64_t rows, const Normal& normal,
                       const std::string& name) {
    draw(p.master.narrow(0, first, rows), normal, seed, name);
  };

  // A tied head wins over the embedding's own rule.
  if (c.tied && !llama) {
    draw(decoder.tok_embeddings.master, {0.02, {}}, seed, decoder.tok_embeddings.name);
  } else if (c.tied) {
    double std = std::pow(static_cast<double>(c.dim), -0.5);
    draw(decoder.tok_embeddings.master, {std, 3 * std}, seed, "output.weight");
  } else {
    draw(decoder.tok_embeddings.master, {llama ? 1.0 : 0.02, {}}, seed,
         decoder.tok_embeddings.name);
  }

  for (size_t i = 0; i < decoder.blocks.size(); ++i) {
    Block& b = decoder.blocks[i];
    Normal out = inner;
    if (llama) out.std = 0.02 / std::sqrt(2.0 * static_cast<double>(i + 1));
    std::string prefix = fmt::format("layers.{}.", i);
    draw_rows(b.attention.wqkv, 0, c.q_width(), inner, prefix + "attention.wq");
    draw_rows(b.attention.wqkv, c.q_width(), c.kv_width(), inner, prefix + "attention.wk");
    draw_rows(b.attention.wqkv, c.q_width() + c.kv_width(), c.kv_width(), inner,
              prefix + "attention.wv");
    draw_rows(b.attention.wo, 0, c.dim, out, prefix + "attention.wo");
    draw_rows(b.feed_forward.w13, 0, c.ffn, inner, prefix + "feed_forward.w1");
    draw_rows(b.feed_forward.w13, c.ffn, c.ffn, out, prefix + "feed_forward.w3");
    draw_rows(b.feed_forward.w2, 0, c.dim, out, prefix + "feed_forward.w2");
    fill_one(b.attention_norm);
    fill_one(b.ffn_norm);
    fill_one(b.attention.q_norm);
    fill_one(b.attention.k_norm);
  }
  fill_one(decoder.norm);
  if (decoder.output.defined()) {
    double std = llama ? std::pow(static_cast<double>(c.dim), -0.5) : 0.02;
    draw(decoder.output.master, {std, llama ? std::optional<double>(3 * std) : std::nullopt}, seed,
         decoder.output.name);
  }
}

}  // namespace plimsoll::model
