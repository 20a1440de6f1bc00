#include "plimsoll/model/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/model/hf_names.h"

namespace plimsoll::model {
namespace {

DecoderConfig tiny(const std::string& architecture) {
  DecoderConfig c = preset(architecture, "debugmodel");
  c.dim = 32;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.ffn = 48;
  c.vocab = 61;
  return c;
}

PackedRow row_of(const at::Tensor& tokens, const std::vector<int32_t>& offsets) {
  std::vector<at::Tensor> positions;
  PackedRow row;
  row.tokens = tokens;
  std::vector<int32_t> p;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (int32_t t = offsets[i]; t < offsets[i + 1]; ++t) p.push_back(t - offsets[i]);
  }
  row.positions = at::tensor(p, at::TensorOptions().dtype(at::kInt));
  row.documents = at::tensor(offsets, at::TensorOptions().dtype(at::kInt));
  return row;
}

TEST(Decoder, EveryPresetBuildsOnTheMetaDevice) {
  for (const char* architecture : {"llama3", "qwen3"}) {
    for (const std::string& flavor : flavors(architecture)) {
      DecoderConfig c = preset(architecture, flavor);
      Decoder d = build(c, {.device = c10::kMeta, .compute = at::kBFloat16, .max_context = 4096});
      int64_t count = 0;
      for (const Parameter* p : parameters(std::as_const(d))) count += p->master.numel();
      EXPECT_EQ(count, c.parameter_count()) << architecture << " " << flavor;
    }
  }
}

TEST(Decoder, BuildIsSeededPerParameter) {
  Decoder a = build(tiny("llama3"), {.max_context = 64, .seed = 1});
  Decoder b = build(tiny("llama3"), {.max_context = 64, .seed = 1});
  Decoder other = build(tiny("llama3"), {.max_context = 64, .seed = 2});
  DecoderConfig deeper = tiny("llama3");
  deeper.layers = 3;
  Decoder c = build(deeper, {.max_context = 64, .seed = 1});
  for (size_t i = 0; i < parameters(a).size(); ++i) {
    EXPECT_TRUE(at::equal(parameters(a)[i]->master, parameters(b)[i]->master));
  }
  EXPECT_FALSE(at::equal(a.output.master, other.output.master));
  // A deeper model has the same first layers and the same head.
  EXPECT_TRUE(at::equal(a.blocks[1].attention.wqkv.master, c.blocks[1].attention.wqkv.master));
  EXPECT_TRUE(at::equal(a.output.master, c.output.master));
}

TEST(Decoder, InitialValuesHaveTheirSpread) {
  DecoderConfig c = tiny("llama3");
  c.dim = 256;
  c.vocab = 512;
  Decoder d = build(c, {.max_context = 64});
  EXPECT_NEAR(d.tok_embeddings.master.std().item<double>(), 1.0, 0.02);
  EXPECT_NEAR(d.output.master.std().item<double>(), 0.0625 * 0.987, 0.002);
  EXPECT_LE(d.output.master.abs().max().item<double>(), 3 * 0.0625 + 1e-6);
  EXPECT_NEAR(d.blocks[0].attention.wqkv.master.std().item<double>(), 0.02, 0.001);
  EXPECT_NEAR(d.blocks[1].attention.wo.master.std().item<double>(), 0.01, 0.001);
  // No draw may come out at the far cut of the truncated normal.
  EXPECT_LE(d.blocks[0].attention.wqkv.master.abs().max().item<double>(), 0.2);
  EXPECT_EQ(d.norm.master.min().item<double>(), 1.0);
}

TEST(Decoder, ContextBeyondTheRopeLimitIsRefused) {
  DecoderConfig c = tiny("qwen3");
  try {
    build(c, {.max_context = c.rope_limit + 1});
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("4097"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("4096"), std::string::npos);
  }
}

TEST(Decoder, DocumentsDoNotSeeEachOther) {
  c10::NoGradGuard no_grad;
  for (const char* architecture : {"llama3", "qwen3"}) {
    Decoder d = build(tiny(architecture), {.max_context = 64});
    at::Tensor tokens = at::randint(0, 61, {20}, at::TensorOptions().dtype(at::kInt));
    at::Tensor both = forward(d, row_of(tokens, {0, 7, 20}));
    at::Tensor second = forward(d, row_of(tokens.narrow(0, 7, 13), {0, 13}));
    EXPECT_LT((both.narrow(0, 7, 13) - second).abs().max().item<double>(), 1e-5) << architecture;
    // And a token never sees those behind it.
    at::Tensor changed = tokens.clone();
    changed[6] = (changed[6] + 1) % 61;
    at::Tensor after = forward(d, row_of(changed, {0, 7, 20}));
    EXPECT_TRUE(at::equal(both.narrow(0, 0, 6), after.narrow(0, 0, 6)));
    EXPECT_FALSE(at::equal(both.narrow(0, 6, 1), after.narrow(0, 6, 1)));
  }
}

TEST(Decoder, ComputeCopiesFollowTheirMasters) {
  Decoder d = build(tiny("qwen3"), {.compute = at::kBFloat16, .max_context = 64});
  EXPECT_FALSE(d.norm.compute.defined());
  const Parameter& w = d.blocks[0].feed_forward.w13;
  EXPECT_TRUE(at::equal(w.compute, w.master.to(at::kBFloat16)));
  {
    c10::NoGradGuard no_grad;
    w.master.fill_(0.5);
  }
  refresh_compute(d);
  EXPECT_EQ(w.compute.min().item<double>(), 0.5);
}

TEST(HfNames, RowOrderRoundTrips) {
  at::Tensor rows = at::arange(4 * 8 * 3).view({32, 3});
  at::Tensor hf = rows_to_rotate_half(rows, 4);
  EXPECT_FALSE(at::equal(rows, hf));
  EXPECT_TRUE(at::equal(rows_from_rotate_half(hf, 4), rows));
  // Our row 1 of a head is the imaginary part of its first pair: row 4 of Hugging Face's.
  EXPECT_TRUE(at::equal(hf[4], rows[1]));
}

TEST(HfNames, WrongShapeNamesBoth) {
  Decoder d = build(tiny("llama3"), {.max_context = 64});
  try {
    load_hf(d, [](const std::string&) { return at::arange(5); });
    FAIL();
  } catch (const Error& e) {
    std::string what = e.what();
    EXPECT_NE(what.find("model.embed_tokens.weight"), std::string::npos) << what;
    EXPECT_NE(what.find("[5]"), std::string::npos) << what;
    EXPECT_NE(what.find("[61, 32]"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace plimsoll::model
