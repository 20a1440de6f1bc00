#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "plimsoll/costmodel/job.h"

namespace plimsoll::costmodel {

/// A discrete-event simulation in whole nanoseconds: jobs wait for their predecessors, then for
/// their lane, which takes them by (ready time, number) and does one at a time.
///
/// The clock is lazy. It decides jobs in the order of (start, number) over all lanes, and only up
/// to a time that it is told; a decision is never taken back. So whoever submits jobs as time goes
/// by must submit them with `ready` not before the latest time given to advance(), and with rising
/// numbers; then when advance() is called does not change any result.
///
/// One thread at a time.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock();

  LaneId add_lane();
  std::size_t lanes() const noexcept { return lanes_.size(); }

  /// Ties the two directions of a link: a job that starts on one of them while the other is busy
  /// takes (factor - 1) * transfer longer. Fixed at its start: the one already running pays
  /// nothing.
  void set_duplex(LaneId a, LaneId b, double factor);

  /// `job`, not yet submitted, runs after `predecessor`.
  static void after(Job& job, Job& predecessor);

  /// Takes the job in. Its lane must exist; its fields must not be changed from here on.
  void submit(const Ref<Job>& job);

  /// Decides every job that starts at `now` or before.
  void advance(Nanoseconds now);

  /// Decides jobs until `job`, which must have been submitted, is one of them. All of them start
  /// before it ends.
  void settle(const Job& job);

  /// Decides all there are.
  void finish() { advance(std::numeric_limits<Nanoseconds>::max()); }

  /// `observer` sees each job on a lane once, when it has been decided.
  void observe(std::function<void(const Job&)> observer) { observer_ = std::move(observer); }

 private:
  struct Waiting {
    Nanoseconds ready;
    std::uint64_t number;
    Ref<Job> job;
    // Of a heap whose top is the first.
    bool operator<(const Waiting& other) const noexcept {
      return ready != other.ready ? ready > other.ready : number > other.number;
    }
  };
  struct Lane {
    Nanoseconds free_at = 0;
    LaneId other_direction = kNoLane;
    double duplex = 1;
    std::vector<Waiting> queue;
  };

  bool step(Nanoseconds until);
  void enter(Ref<Job> job);

  std::vector<Lane> lanes_;
  std::vector<Ref<Job>> work_;
  std::function<void(const Job&)> observer_;
};

}  // namespace plimsoll::costmodel
