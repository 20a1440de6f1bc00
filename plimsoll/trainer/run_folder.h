#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/base/files.h"

namespace plimsoll::trainer {

/// Which checkpoint to go on from.
struct Resume {
  enum class Kind { kNone, kAuto, kStep };
  Kind kind = Kind::kNone;
  int64_t step = 0;  ///< of kStep
};

/// "none", "auto" or a step number. Throws UsageError.
Resume parse_resume(const std::string& text);

/// A run's folder: config.toml (resolved), metrics.jsonl, events.*, tokenizer.json,
/// checkpoints/step-N.
struct RunFolder {
  std::filesystem::path path;
  std::optional<int64_t> resume_step;  ///< checkpoint to load; absent for a new run
  std::vector<std::string> notes;      ///< what a person should know about that choice
  FileDescriptor lock;                 ///< while it is open no other process trains here

  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
};

/// Throws what open_run_folder would throw about `dir` and `resume`, and creates nothing: for a
/// complaint before the long work.
void check_run_folder(const std::string& dir, const Resume& resume);

/// The checkpoint to go on from and what to say about it.
struct ResumePoint {
  std::optional<int64_t> step;
  std::vector<std::string> notes;  ///< newer checkpoints that cannot be used, and why
};

/// Chooses in a folder of checkpoints: none, the newest complete one, or the one asked for, which
/// must be there (UsageError says what is wrong with it or lists those that are). Throws Error
/// where there are checkpoints and none can be used: starting over would bury them.
ResumePoint choose_checkpoint(const std::filesystem::path& checkpoints, const Resume& resume);

/// Chooses, creates and locks the folder. Without `dir` a new run gets runs/NAME-N with the first
/// free N, and `auto` takes the newest runs/NAME-N that has a complete checkpoint. With `dir` a new
/// run wants a folder that holds no run: else UsageError, which hints at --resume auto. `auto` in a
/// folder without a complete checkpoint starts anew there. A step that is not there is an error
/// that lists those that are. Throws Error when another process trains in the folder.
RunFolder open_run_folder(const std::string& dir, const std::string& name, const Resume& resume);

/// Renames the checkpoints after `step` to abandoned-step-N, so that a run which went back
/// to `step` is never continued from the future it left. Returns their steps, falling.
std::vector<int64_t> set_aside_later(const std::filesystem::path& checkpoints, int64_t step);

/// Whether the folder holds a run of ours.
bool holds_run(const std::filesystem::path& folder);

/// Throws UsageError when `folder` holds no run.
void require_run(const std::filesystem::path& folder);

}  // namespace plimsoll::trainer
