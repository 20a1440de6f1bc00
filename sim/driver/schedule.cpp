#include "sim/driver/schedule.h"

#include <stdexcept>

namespace plimsoll::sim {

Schedule::Schedule(Mode mode, std::uint64_t seed) : mode_(mode), random_(seed) {
  constexpr Strategy kMix[] = {Strategy::kWeighted, Strategy::kLag, Strategy::kWeighted,
                               Strategy::kPriorities};
  strategy_ = kMix[seed % 4];
  constexpr double kChange[] = {0, 0, 0.001, 0.01, 0.1, 0.3};
  change_ = kChange[random_.below(6)];
  constexpr double kEager[] = {0, 0, 0.1, 0.5};
  eager_ = kEager[random_.below(4)];
}

// Tasks that never ran are dropped, not run: what their bodies point to may be gone. One by one,
// since each holds its successors.
Schedule::~Schedule() {
  while (!ready_.empty()) {
    const Ref<Task> task = std::move(ready_.back());
    ready_.pop_back();
    for (auto& next : task->waiting) ready_.push_back(std::move(next.task));
    task->waiting.clear();
    task->needs.clear();
  }
}

void Schedule::add_stream() {
  streams_.emplace_back();
  streams_.back().priority = static_cast<std::int64_t>(random_.next() >> 33) + 1;
  streams_.back().lazy = random_.below(2) != 0;
}

void Schedule::fail_with(Task& task, const Task& predecessor, bool carries) {
  if (carries && predecessor.failure && !task.failure) task.failure = predecessor.failure;
}

void Schedule::after(Task& task, Task& predecessor, bool carries_failure) {
  if (predecessor.executed) {
    fail_with(task, predecessor, carries_failure);
    return;
  }
  ++task.unexecuted_before;
  predecessor.waiting.push_back({Ref<Task>(&task), carries_failure});
  if (strategy_ == Strategy::kLag) task.needs.emplace_back(&predecessor);
}

void Schedule::submit(const Ref<Task>& task) {
  if (mode_ != Mode::kExplore) {
    if (mode_ == Mode::kInline) run(*task);
    task->body = nullptr;
    task->executed = true;
    return;
  }
  if (task->body) ++streams_[task->stream].pending;
  if (task->unexecuted_before == 0) enter(task);
}

// Nothing stands before the task: it becomes ready, or is done at once where it has no body.
void Schedule::enter(Ref<Task> first) {
  std::vector<Ref<Task>> work{std::move(first)};
  while (!work.empty()) {
    Ref<Task> task = std::move(work.back());
    work.pop_back();
    if (task->body)
      ready_.push_back(std::move(task));
    else
      complete(*task, work);
  }
}

void Schedule::complete(Task& task, std::vector<Ref<Task>>& unblocked) {
  task.executed = true;
  task.needs.clear();
  for (auto& next : task.waiting) {
    fail_with(*next.task, task, next.carries_failure);
    if (--next.task->unexecuted_before == 0) unblocked.push_back(std::move(next.task));
  }
  task.waiting.clear();
}

void Schedule::run(Task& task) {
  if (!task.body) return;
  try {
    task.body();
  } catch (...) {
    if (!task.failure) task.failure = std::current_exception();
  }
  task.body = nullptr;
}

void Schedule::run_ready(std::size_t which) {
  const Ref<Task> task = std::move(ready_[which]);
  if (which + 1 != ready_.size()) ready_[which] = std::move(ready_.back());
  ready_.pop_back();
  run(*task);
  --streams_[task->stream].pending;
  std::vector<Ref<Task>> unblocked;
  complete(*task, unblocked);
  for (auto& next : unblocked) enter(std::move(next));
}

std::size_t Schedule::most_urgent() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < ready_.size(); ++i)
    if (streams_[ready_[i]->stream].priority > streams_[ready_[best]->stream].priority) best = i;
  return best;
}

void Schedule::step() {
  if (ready_.empty()) throw std::logic_error("a task waits for what was never submitted");
  std::size_t chosen = 0;
  if (ready_.size() > 1 && strategy_ == Strategy::kWeighted) {
    std::uint64_t total = 0;
    for (const auto& task : ready_) total += streams_[task->stream].pending;
    std::uint64_t left = random_.next() % total;
    for (;; ++chosen) {
      const std::uint64_t weight = streams_[ready_[chosen]->stream].pending;
      if (left < weight) break;
      left -= weight;
    }
  } else if (ready_.size() > 1) {
    chosen = most_urgent();
    if (change_ > 0 && random_.unit() < change_) {
      streams_[ready_[chosen]->stream].priority = --lowest_priority_;
      chosen = most_urgent();
    }
  }
  run_ready(chosen);
}

void Schedule::force(Task& task) {
  if (task.executed) return;
  if (strategy_ == Strategy::kLag) return force_only(task);
  while (!task.executed) step();
}

// What the task needs, in a random legal order; eager streams go on as they become ready.
void Schedule::force_only(Task& task) {
  const std::uint32_t mark = ++marks_;
  task.mark = mark;
  std::vector<Task*> work{&task};
  while (!work.empty()) {
    const Task& next = *work.back();
    work.pop_back();
    for (const auto& need : next.needs) {
      if (need->executed || need->mark == mark) continue;
      need->mark = mark;
      work.push_back(need.get());
    }
  }
  std::vector<std::size_t> may_run;
  while (!task.executed) {
    may_run.clear();
    for (std::size_t i = 0; i < ready_.size(); ++i)
      if (ready_[i]->mark == mark || !streams_[ready_[i]->stream].lazy) may_run.push_back(i);
    if (may_run.empty()) throw std::logic_error("a task waits for what was never submitted");
    run_ready(may_run[random_.below(static_cast<std::uint32_t>(may_run.size()))]);
  }
}

void Schedule::poke() {
  if (mode_ != Mode::kExplore) return;
  if (strategy_ != Strategy::kLag) {
    if (eager_ > 0)
      while (!ready_.empty() && random_.unit() < eager_) step();
    return;
  }
  if (change_ > 0 && !streams_.empty() && random_.unit() < change_ / 2) {
    auto& stream = streams_[random_.below(static_cast<std::uint32_t>(streams_.size()))];
    stream.lazy = !stream.lazy;
  }
  for (std::size_t i = 0; i < ready_.size();) {
    if (streams_[ready_[i]->stream].lazy) {
      ++i;
      continue;
    }
    run_ready(i);
    i = 0;
  }
}

}  // namespace plimsoll::sim
