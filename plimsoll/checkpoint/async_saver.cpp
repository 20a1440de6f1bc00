#include "plimsoll/checkpoint/async_saver.h"

#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/steps.h"

namespace plimsoll::checkpoint {

AsyncSaver::AsyncSaver(std::filesystem::path root, std::int64_t keep_latest_k, Gate gate)
    : root_(std::move(root)), keep_latest_k_(keep_latest_k), gate_(std::move(gate)) {
  if (keep_latest_k < 0) throw UsageError("keep_latest_k must be at least 0 (0 keeps all)");
}

void AsyncSaver::submit(const Snapshot& live) {
  background_.wait();
  stage_into(live, staged_);
  if (gate_) gate_("staged");
  background_.submit([this] {
    save(root_, staged_, gate_);
    last_saved_ = staged_.step;
    const Pruned pruned = prune(root_, keep_latest_k_);
    {
      const std::lock_guard lock(mutex_);
      warnings_.insert(warnings_.end(), pruned.failures.begin(), pruned.failures.end());
    }
    if (gate_) gate_("saved");
  });
}

void AsyncSaver::wait() {
  background_.wait();
}

std::optional<std::int64_t> AsyncSaver::last_saved() const {
  const std::int64_t step = last_saved_;
  if (step < 0) return std::nullopt;
  return step;
}

std::vector<std::string> AsyncSaver::take_warnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace plimsoll::checkpoint
