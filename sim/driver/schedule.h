#pragma once

#include <functional>
#include <vector>

#include "sim/driver/random.h"
#include "sim/driver/task.h"

namespace plimsoll::sim {

/// How `explore` chooses among the tasks that may run. A seed chooses one of them.
enum class Strategy {
  kWeighted,    ///< a ready task by how many its stream still has: near-uniform over all orders
  kPriorities,  ///< streams have random priorities that change now and then
  kLag,         ///< each stream is eager or lazy, and a wait runs only what it needs
};

/// Runs the bodies of tasks in an order that their edges allow. What the host sees of time is none
/// of its business: the virtual clock has edges of its own.
class Schedule {
 public:
  /// Half of the seeds are weighted, a quarter each of the others: see `explore` in
  /// docs/simulator.md.
  Schedule(Mode mode, std::uint64_t seed);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  ~Schedule();

  Mode mode() const noexcept { return mode_; }
  Strategy strategy() const noexcept { return strategy_; }

  void add_stream();

  /// `task`, not yet submitted, really runs after `predecessor`, and fails with it unless told not
  /// to.
  void after(Task& task, Task& predecessor, bool carries_failure = true);

  /// Takes the task in. `kInline` runs its body before this returns, `cost` never does.
  void submit(const Ref<Task>& task);

  /// Runs what must run until `task` has.
  void force(Task& task);

  /// The host did something: `explore` may run a few ready tasks before it goes on.
  void poke();

 private:
  struct StreamState {
    std::uint64_t pending = 0;  // bodies that have not run
    std::int64_t priority = 0;
    bool lazy = false;
  };

  void enter(Ref<Task> task);
  void complete(Task& task, std::vector<Ref<Task>>& unblocked);
  void run(Task& task);
  void run_ready(std::size_t which);
  void step();
  std::size_t most_urgent() const;
  void force_only(Task& task);
  static void fail_with(Task& task, const Task& predecessor, bool carries);

  const Mode mode_;
  Random random_;
  Strategy strategy_ = Strategy::kWeighted;
  double change_ = 0;  // probability that priorities or laziness change at a step
  double eager_ = 0;   // probability to run one more task at a poke
  std::int64_t lowest_priority_ = 0;
  std::uint32_t marks_ = 0;
  std::vector<StreamState> streams_;
  std::vector<Ref<Task>> ready_;
};

}  // namespace plimsoll::sim
