#include "plimsoll/trainer/saved_run.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/checkpoint.h"
#include "plimsoll/checkpoint/steps.h"
#include "plimsoll/config/config.h"
#include "plimsoll/trainer/run_folder.h"
#include "plimsoll/trainer/session.h"

namespace plimsoll::trainer {

SavedRun open_saved_run(const std::filesystem::path& folder, std::optional<int64_t> step) {
  require_run(folder);
  RunConfig config;
  config::load(folder / "config.toml", {}, config);
  Resume which{step ? Resume::Kind::kStep : Resume::Kind::kAuto, step.value_or(0)};
  ResumePoint point = choose_checkpoint(folder / "checkpoints", which);
  if (!point.step) {
    throw UsageError(folder.string() + " holds no complete checkpoint",
                     "train it further with --resume auto, or wait for its first checkpoint");
  }
  const c10::Device device(c10::kCPU);
  SavedRun out{
      .config = config,
      .tokenizer = text::Tokenizer::load(folder),
      .decoder = build_decoder(config, device, compute_dtype(config.train.precision, device)),
      .step = *point.step,
      .notes = std::move(point.notes)};
  check_vocabulary(out.tokenizer, out.decoder.config);
  const checkpoint::Loaded saved =
      checkpoint::open_checkpoint(checkpoint::step_path(folder / "checkpoints", *point.step));
  // Other heads over the same shapes would load, and speak another language.
  const std::string changes = changes_since(saved, config, "model.");
  if (!changes.empty()) {
    throw UsageError(fmt::format("{} does not describe the model of the checkpoint:\n{}",
                                 (folder / "config.toml").string(), changes),
                     "restore these values");
  }
  saved.load_into("model", model_tensors(out.decoder));
  model::refresh_compute(out.decoder);
  return out;
}

}  // namespace plimsoll::trainer
