#include "plimsoll/trainer/saved_run.h"

#include <c10/core/GradMode.h>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/checkpoint.h"
#include "plimsoll/config/config.h"
#include "plimsoll/trainer/run_folder.h"
#include "plimsoll/trainer/session.h"

namespace plimsoll::trainer {

SavedRun open_saved_run(const std::filesystem::path& folder, std::optional<int64_t> step) {
  require_run(folder);
  RunConfig config;
  config::load(folder / "config.toml", {}, config);
  Resume which{step ? Resume::Kind::kStep : Resume::Kind::kAuto, step.value_or(0)};
  const RunFolder run{.path = folder, .resume_step = resume_step(folder / "checkpoints", which)};
  if (!run.resume_step) {
    throw UsageError(folder.string() + " holds no complete checkpoint",
                     "train it further with --resume auto, or wait for its first checkpoint");
  }
  const c10::Device device(c10::kCPU);
  SavedRun out{
      .config = config,
      .tokenizer = text::Tokenizer::load(folder),
      .decoder = build_decoder(config, device, compute_dtype(config.train.precision, device)),
      .step = *run.resume_step};
  check_vocabulary(out.tokenizer, out.decoder.config);
  checkpoint::Loaded saved =
      checkpoint::open_checkpoint(checkpoint::step_path(run.checkpoints(), *run.resume_step));
  saved.load_into("model", model_tensors(out.decoder));
  model::refresh_compute(out.decoder);
  return out;
}

}  // namespace plimsoll::trainer
