// Parity with the field: logits, loss, gradients and ten AdamW steps of tiny models, against what
// transformers computed (tests/golden/make.py).
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "plimsoll/checkpoint/safetensors.h"
#include "plimsoll/model/decoder.h"
#include "plimsoll/model/hf_names.h"
#include "plimsoll/optim/adamw.h"
#include "plimsoll/trainer/step.h"

namespace plimsoll::model {
namespace {

class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : file_(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/" + name) {}

  at::Tensor get(const std::string& name) const {
    const checkpoint::TensorInfo& info = file_.at(name);
    at::Tensor t =
        at::empty(info.shape, info.dtype == checkpoint::DType::I32 ? at::kInt : at::kFloat);
    std::span<const std::byte> bytes = file_.bytes(info);
    std::memcpy(t.mutable_data_ptr(), bytes.data(), bytes.size());
    return t;
  }

  DecoderConfig config() const {
    nlohmann::json j = nlohmann::json::parse(file_.metadata().at("config"));
    DecoderConfig c = preset(j.at("architecture"), "debugmodel");
    c.dim = j.at("dim");
    c.layers = j.at("layers");
    c.heads = j.at("heads");
    c.kv_heads = j.at("kv_heads");
    c.head_dim = j.at("head_dim");
    c.ffn = j.at("ffn");
    c.vocab = j.at("vocab");
    c.rope_theta = j.at("rope_theta");
    c.tied = j.at("tied");
    return c;
  }

 private:
  checkpoint::SafetensorsFile file_;
};

double relative(const at::Tensor& ours, const at::Tensor& reference) {
  return ((ours - reference).abs().max() / reference.abs().max()).item<double>();
}

// Both sequences as one packed row of two documents.
trainer::DeviceBatch packed(const at::Tensor& tokens) {
  const int64_t rows = tokens.size(0);
  const int64_t length = tokens.size(1);
  auto ints = at::TensorOptions().dtype(at::kInt);
  trainer::DeviceBatch b;
  b.row.tokens = tokens.reshape({-1});
  b.row.positions = at::arange(length, ints).repeat({rows});
  b.row.documents = at::arange(0, rows * length + 1, length, ints);
  at::Tensor targets = at::full({rows, length}, -100, ints);
  targets.narrow(1, 0, length - 1).copy_(tokens.narrow(1, 1, length - 1));
  b.targets = targets.reshape({-1});
  b.valid_tokens = rows * (length - 1);
  return b;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  Golden() : fixture_(GetParam()), decoder_(build(fixture_.config(), {.max_context = 64})) {
    load_hf(decoder_, [&](const std::string& name) { return fixture_.get("weight/" + name); });
  }
  Fixture fixture_;
  Decoder decoder_;
};

TEST_P(Golden, LogitsAndLoss) {
  c10::NoGradGuard no_grad;
  trainer::DeviceBatch batch = packed(fixture_.get("tokens"));
  at::Tensor reference = fixture_.get("logits");
  at::Tensor ours = logits(decoder_, forward(decoder_, batch.row)).view(reference.sizes());
  EXPECT_LE(relative(ours, reference), 1e-5);
  double loss = trainer::loss_sum(decoder_, batch, 7).item<double>() /
                static_cast<double>(batch.valid_tokens);
  EXPECT_NEAR(loss, fixture_.get("loss").item<double>(), 1e-5);
}

TEST_P(Golden, EveryGradient) {
  trainer::DeviceBatch batch = packed(fixture_.get("tokens"));
  (trainer::loss_sum(decoder_, batch, 8) / static_cast<double>(batch.valid_tokens)).backward();
  int compared = 0;
  for (const Parameter* p : parameters(std::as_const(decoder_))) {
    for (auto& [name, grad] : to_hf(decoder_.config, *p, p->master.grad())) {
      EXPECT_LE(relative(grad, fixture_.get("grad/" + name)), 1e-4) << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, decoder_.config.tied ? 24 : 21);
}

TEST_P(Golden, TenSteps) {
  optim::OptimConfig config;
  config.lr = 3e-3;
  config.max_norm = 0;
  optim::AdamW optimizer(parameters(decoder_), config);
  std::vector<trainer::DeviceBatch> batches = {packed(fixture_.get("tokens"))};
  at::Tensor reference = fixture_.get("adamw_losses");
  for (int64_t step = 0; step < 10; ++step) {
    double loss = trainer::train_step(decoder_, optimizer, batches, 1.0, 2048).loss.item<double>();
    double expected = reference[step].item<double>();
    EXPECT_LE(std::abs(loss - expected) / expected, 1e-4) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Values("llama3_tiny.safetensors", "qwen3_tiny.safetensors"));

}  // namespace
}  // namespace plimsoll::model
