#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/checkpoint/checkpoint.h"
#include "plimsoll/data/corpus.h"
#include "plimsoll/data/prefetch.h"
#include "plimsoll/model/decoder.h"
#include "plimsoll/optim/adamw.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/trainer/run_config.h"

namespace plimsoll::trainer {

/// How far a run has come. Counted in optimizer steps, whatever the micro-batches of one.
struct Progress {
  int64_t step = 0;         ///< optimizer steps done
  int64_t tokens_seen = 0;  ///< tokens of all batches so far
};

/// Everything that a run trains with, built from its config in one go.
struct Session {
  RunConfig config;
  c10::Device device = c10::kCPU;
  at::ScalarType compute = at::kFloat;
  text::Tokenizer tokenizer;
  data::Corpus corpus;
  model::Decoder decoder;
  std::unique_ptr<optim::AdamW> optimizer;    // refers to decoder
  std::unique_ptr<data::Prefetcher> batches;  // training rows
  Progress progress;
};

/// The dtype that train.precision asks for on a device: "auto" takes bf16 on an accelerator and
/// where the processor multiplies bf16 itself, else fp32.
at::ScalarType compute_dtype(const std::string& precision, c10::Device device);

/// The decoder of a config with its gradients' dtype set; on the meta device nothing is allocated.
model::Decoder build_decoder(const RunConfig& config, c10::Device device, at::ScalarType compute);

/// Throws UsageError when the tokenizer has ids that the model has no rows for.
void check_vocabulary(const text::Tokenizer& tokenizer, const model::DecoderConfig& model);

/// The corpus of a config under a tokenizer; builds the token cache when it is not there.
data::Corpus open_corpus(const RunConfig& config, const text::Tokenizer& tokenizer,
                         const data::OnBuildProgress& progress = {});

/// Builds model, optimizer and data for a run on `device`. Errors are those of the parts.
std::unique_ptr<Session> open_session(const RunConfig& config, c10::Device device,
                                      const data::OnBuildProgress& progress = {});

/// The masters of a decoder under their names: the group "model" of a checkpoint.
std::vector<checkpoint::NamedTensor> model_tensors(const model::Decoder& decoder);

/// A view of all that a checkpoint holds; the tensors are the live ones.
checkpoint::Snapshot snapshot(const Session& session);

/// The keys that a resumed run may not change and whose value in `now` differs from the recipe
/// saved in a checkpoint: one line each with both values; empty when there is none. Only keys that
/// begin with `prefix` count.
std::string changes_since(const checkpoint::Loaded& saved, const RunConfig& now,
                          std::string_view prefix = {});

/// Continues from a checkpoint: weights, moments, counters, data position. Throws UsageError naming
/// each recipe key that changed but may not, and for another model the first tensor that differs.
void restore(Session& session, const checkpoint::Loaded& checkpoint);

}  // namespace plimsoll::trainer
