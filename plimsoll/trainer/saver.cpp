#include "plimsoll/trainer/saver.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll::trainer {

Saver::Saver(const CheckpointSection& config, std::filesystem::path root, report::Console& console,
             checkpoint::Gate gate)
    : config_(config), console_(console), saver_(root, config.keep, std::move(gate)) {
  for (const std::string& name : checkpoint::remove_stale(root)) {
    console.line(fmt::format("removed an unfinished checkpoint: {}", name));
  }
}

void Saver::save(const Session& session) {
  if (submitted_ == session.progress.step) return;
  // A submit first reports how the write before it went and then stages nothing, so where the run
  // goes on, that report is taken before.
  finish();
  guarded([&] { saver_.submit(snapshot(session)); });
  submitted_ = session.progress.step;
  if (!config_.async) finish();
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
