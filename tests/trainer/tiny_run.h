#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/checkpoint.h"
#include "plimsoll/optim/schedule.h"
#include "plimsoll/report/metrics_log.h"
#include "plimsoll/text/bpe_trainer.h"
#include "plimsoll/text/tokenizer_writer.h"
#include "plimsoll/trainer/session.h"
#include "plimsoll/trainer/step.h"
#include "plimsoll/trainer/trainer.h"
#include "tests/temp_dir.h"

namespace plimsoll::trainer::testing {

using ::plimsoll::testing::TempDir;
namespace fs = std::filesystem;

/// Lines of made-up words, one document each, of 3 to 42 words.
inline std::string made_up_text(int documents = 40, uint32_t seed = 1) {
  const std::vector<std::string> words = {"bado", "kemi", "lusa", "nori", "tepu", "mika", "dola"};
  std::string text;
  uint32_t draw = seed;
  for (int i = 0; i < documents; ++i) {
    for (int n = 3 + (i * 13) % 40; n > 0; --n) {
      draw = draw * 1664525 + 1013904223;
      text += words[(draw >> 16) % words.size()] + (n > 1 ? " " : "\n");
    }
  }
  return text;
}

/// A corpus, a tokenizer and a recipe for a model of 20,000 parameters in a folder of their own.
struct TinyRun {
  TempDir folder;
  RunConfig config;
  std::string said;  // what the console was told

  TinyRun() {
    const std::string text = made_up_text();
    text::BpeTrainer trainer({.vocab_size = 280});
    trainer.feed(text);
    text::write_tokenizer(trainer.finish(), folder / "tokenizer");
    config.run.name = "tiny";
    config.run.dir = (folder / "run").string();
    config.model.dim = 16;
    config.model.layers = 2;
    config.model.heads = 4;
    config.model.kv_heads = 2;
    config.model.head_dim = 4;
    config.model.ffn = 24;
    config.model.vocab = 300;
    config.data.files = {folder.write("corpus.txt", text)};
    config.data.text_documents = "line";
    config.data.tokenizer = (folder / "tokenizer").string();
    config.data.cache_dir = (folder / "cache").string();
    config.train.steps = 6;
    config.train.tokens_per_batch = 64;
    config.train.max_context = 48;
    config.train.precision = "fp32";
    config.train.deterministic = true;
    config.optim.lr = 1e-2;
    config.optim.schedule.warmup_steps = 2;
    config.device.name = "cpu";
    config.device.threads = 1;
    config.metrics.interval = 1;
    config.metrics.tensorboard = false;
  }

  report::Terminal terminal() {
    return {.width = [] { return 80; },
            .write = [this](std::string_view text) { said += text; },
            .seconds = [] { return 0.0; }};
  }

  /// The real thing, as the command line runs it.
  TrainResult train(const std::string& resume = "none") {
    report::Console console(terminal());
    return trainer::train(config, parse_resume(resume), console);
  }

  std::unique_ptr<Session> session() const { return open_session(config, c10::kCPU); }
  fs::path checkpoints() const { return fs::path(config.run.dir) / "checkpoints"; }
  std::vector<report::StepRecord> metrics() const {
    return report::read_metrics(fs::path(config.run.dir) / "metrics.jsonl");
  }
};

/// One step of a session with the next batches of its stream.
inline StepResult step(Session& s) {
  std::vector<DeviceBatch> batches;
  data::Batch batch;
  for (int64_t i = 0; i < s.config.train.batches_per_step(); ++i) {
    if (!s.batches->next(batch)) throw std::runtime_error("the data ended");
    batches.push_back(to_device(batch, s.device));
    s.progress.tokens_seen += batches.back().targets.numel();
  }
  const double factor =
      optim::lr_factor(s.config.optim.schedule, s.progress.step, s.config.train.steps);
  StepResult result =
      train_step(s.decoder, *s.optimizer, batches, factor, s.config.train.loss_chunk);
  s.progress.step += 1;
  return result;
}

inline bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// The name of the first tensor whose bits differ between two snapshots or files; empty for none.
inline std::string first_difference(const std::vector<checkpoint::NamedTensor>& a,
                                    const std::vector<checkpoint::NamedTensor>& b) {
  if (a.empty() || a.size() != b.size()) return "their number";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || !equal_bits(a[i].tensor, b[i].tensor)) return a[i].name;
  }
  return {};
}

}  // namespace plimsoll::trainer::testing
