#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "plimsoll/checkpoint/async_saver.h"
#include "plimsoll/report/console.h"
#include "plimsoll/trainer/run_config.h"
#include "plimsoll/trainer/session.h"

namespace plimsoll::trainer {

/// Saves a run when it is due, and decides by checkpoint.on_error what a save that failed means:
/// the run stops with the save's Error, or says so and goes on. Checkpoints saved before stay.
class Saver {
 public:
  /// Removes what a killed process left half written in `root`. `resumed` is the step whose
  /// checkpoint the run goes on from. `gate` is for tests.
  Saver(const CheckpointSection& config, std::filesystem::path root, report::Console& console,
        std::optional<int64_t> resumed = {}, checkpoint::Gate gate = {});

  bool due(int64_t step) const { return config_.interval > 0 && step % config_.interval == 0; }

  /// Takes a copy of the session's state and writes it, in the background where checkpoint.async.
  /// A step that was already saved is not saved again. Throws Error, whatever checkpoint.on_error
  /// says, when a parameter is not finite: a good checkpoint must not be pruned for a bad one.
  void save(const Session& session);

  /// Waits for the write under way.
  void finish();

  /// The newest step that is safely in a checkpoint, the resumed one included.
  std::optional<int64_t> last_saved() const;

 private:
  void guarded(const std::function<void()>& action);

  CheckpointSection config_;
  report::Console& console_;
  checkpoint::AsyncSaver saver_;
  std::optional<int64_t> resumed_;
  std::optional<int64_t> submitted_;
};

}  // namespace plimsoll::trainer
