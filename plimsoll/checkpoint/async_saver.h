#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/background.h"
#include "plimsoll/checkpoint/checkpoint.h"

namespace plimsoll::checkpoint {

/// Saves in the background: submit() copies everything and returns, a thread writes. One save at a
/// time; the staging memory is kept and reused. All calls from one thread (the training loop).
class AsyncSaver {
 public:
  /// After each save, prune(root, keep_latest_k) runs in the background; 0 keeps all.
  explicit AsyncSaver(std::filesystem::path root, std::int64_t keep_latest_k = 0, Gate gate = {});
  /// Finishes the write under way and joins; an error nobody asked for is dropped, so call wait()
  /// first.
  ~AsyncSaver() = default;

  /// Waits for the previous write, then copies `live` and starts writing the copy. When it returns,
  /// `live` may change. If the previous write failed, its Error is thrown here instead, once, and
  /// nothing is staged: the caller decides whether to call again.
  void submit(const Snapshot& live);
  /// Waits for the write under way; throws its Error, once.
  void wait();
  bool busy() const { return background_.busy(); }
  /// The last step that this saver has written and renamed.
  std::optional<std::int64_t> last_saved() const;
  /// What pruning could not delete, one line each, since the last call.
  std::vector<std::string> take_warnings();

 private:
  std::filesystem::path root_;
  std::int64_t keep_latest_k_;
  Gate gate_;
  Snapshot staged_;  // read by the background thread while busy, written only when idle
  std::atomic<std::int64_t> last_saved_{-1};
  std::mutex mutex_;
  std::vector<std::string> warnings_;  // guarded by mutex_
  Background background_;              // last: its thread ends before the rest goes
};

}  // namespace plimsoll::checkpoint
