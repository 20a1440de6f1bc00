#include "plimsoll/model/init.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/tensor/generator.h"

namespace plimsoll::model {
namespace {

struct Normal {
  double std = 0.02;
  std::optional<double> cut;  ///< absolute bound; none: not truncated
};

/// One weight matrix to fill; its numbers depend on the seed and its name alone.
struct Draw {
  at::Tensor destination;
  Normal normal;
  std::string name;
};

void fill(at::Tensor& values, const Normal& normal, at::Generator generator) {
  // Beyond six deviations the cut cuts nothing, and drawing -1 for erfinv would give the cut
  // itself.
  if (normal.cut && *normal.cut < 6 * normal.std) {
    // Inverse of the normal's distribution function between the two cuts, as torch's trunc_normal_.
    double low = std::erf(-*normal.cut / normal.std / std::sqrt(2.0));
    values.uniform_(low, -low, std::move(generator));
    values.erfinv_().mul_(normal.std * std::sqrt(2.0)).clamp_(-*normal.cut, *normal.cut);
  } else {
    values.normal_(0, normal.std, std::move(generator));
  }
}

// Draws on the CPU in fp32, then copies where the master is another: numbers must not depend on the
// device.
void draw(const Draw& d, uint64_t seed) {
  at::Tensor destination = d.destination;
  if (destination.is_meta()) return;
  at::Generator generator = tensor::make_generator(seed, "init/" + d.name);
  if (destination.is_cpu() && destination.scalar_type() == at::kFloat &&
      destination.is_contiguous()) {
    return fill(destination, d.normal, std::move(generator));
  }
  at::Tensor values = at::empty(destination.sizes(), at::TensorOptions().dtype(at::kFloat));
  fill(values, d.normal, std::move(generator));
  destination.copy_(values);
}

// Drawing is serial within a tensor, so the tensors go side by side. On an accelerator each thread
// would hold a staging copy, and the copies queue on one stream anyway: one thread there.
void draw_all(const std::vector<Draw>& draws, uint64_t seed) {
  auto range = [&](int64_t begin, int64_t end) {
    c10::NoGradGuard no_grad;  // of this thread
    for (int64_t i = begin; i < end; ++i) draw(draws[static_cast<size_t>(i)], seed);
  };
  const auto n = static_cast<int64_t>(draws.size());
  if (draws.front().destination.is_cpu()) {
    at::parallel_for(0, n, 1, range);
  } else {
    range(0, n);
  }
}

void fill_one(const Parameter& p) {
  if (p.defined() && !p.master.is_meta()) p.master.fill_(1);
}

}  // namespace

void initialise(Decoder& decoder, uint64_t seed) {
  c10::NoGradGuard no_grad;
  const DecoderConfig& c = decoder.config;
  std::vector<Draw> draws;
  const bool llama = c.init == InitKind::kLlama3;
  const Normal inner{0.02, llama ? std::optional<double>(2.0) : std::nullopt};

  auto draw_rows = [&](const Parameter& p, int64_t first, int64_t rows, const Normal& normal,
                       const std::string& name) {
    draws.push_back({p.master.narrow(0, first, rows), normal, name});
  };

  // A tied head wins over the embedding's own rule.
  if (c.tied && !llama) {
    draws.push_back({decoder.tok_embeddings.master, {0.02, {}}, decoder.tok_embeddings.name});
  } else if (c.tied) {
    double std = std::pow(static_cast<double>(c.dim), -0.5);
    draws.push_back({decoder.tok_embeddings.master, {std, 3 * std}, "output.weight"});
  } else {
    draws.push_back(
        {decoder.tok_embeddings.master, {llama ? 1.0 : 0.02, {}}, decoder.tok_embeddings.name});
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
    draws.push_back({decoder.output.master,
                     {std, llama ? std::optional<double>(3 * std) : std::nullopt},
                     decoder.output.name});
  }
  draw_all(draws, seed);
}

}  // namespace plimsoll::model
