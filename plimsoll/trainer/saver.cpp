#include "plimsoll/trainer/saver.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/steps.h"

namespace plimsoll::trainer {
namespace {

// The loss and the gradient of a step are looked at before its update; what the update made of the
// weights shows in the next step's loss only, which is too late for a checkpoint. One wait for the
// device in all.
void require_finite(const Session& session) {
  c10::NoGradGuard no_grad;
  const auto parameters = model::parameters(session.decoder);
  std::vector<at::Tensor> largest;
  for (const model::Parameter* p : parameters) {
    largest.push_back(
        at::linalg_vector_norm(p->master, std::numeric_limits<double>::infinity()).to(at::kFloat));
  }
  const at::Tensor finite = at::isfinite(at::stack(largest)).cpu();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (finite.const_data_ptr<bool>()[i]) continue;
    throw Error(fmt::format("step {}: parameter {} is not finite after the update; the run stopped "
                            "and this step is not saved",
                            session.progress.step, parameters[i]->name),
                "lower optim.lr, and resume from the last checkpoint");
  }
}

}  // namespace

Saver::Saver(const CheckpointSection& config, std::filesystem::path root, report::Console& console,
             std::optional<int64_t> resumed, checkpoint::Gate gate)
    : config_(config),
      console_(console),
      saver_(root, config.keep, std::move(gate)),
      resumed_(resumed),
      submitted_(resumed) {
  for (const std::string& name : checkpoint::remove_stale(root)) {
    console.line(fmt::format("removed an unfinished checkpoint: {}", name));
  }
}

void Saver::save(const Session& session) {
  if (submitted_ == session.progress.step) return;
  require_finite(session);
  // A submit first reports how the write before it went and then stages nothing, so where the run
  // goes on, that report is taken before.
  finish();
  guarded([&] { saver_.submit(snapshot(session)); });
  submitted_ = session.progress.step;
  if (!config_.async) finish();
}

std::optional<int64_t> Saver::last_saved() const {
  return saver_.last_saved() ? saver_.last_saved() : resumed_;
}

void Saver::finish() {
  guarded([&] { saver_.wait(); });
}

void Saver::guarded(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    if (config_.on_error == "stop") throw;
    console_.line(fmt::format(
        "checkpoint not saved: {}; going on (checkpoint.on_error = \"continue\")", e.what()));
  }
}

}  // namespace plimsoll::trainer
