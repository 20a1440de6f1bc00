#include "plimsoll/costmodel/clock.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace plimsoll::costmodel {

// Undecided jobs hold their successors: let go of them one by one, not by recursion.
Clock::~Clock() {
  for (Lane& lane : lanes_)
    for (Waiting& waiting : lane.queue) work_.push_back(std::move(waiting.job));
  while (!work_.empty()) {
    const Ref<Job> job = std::move(work_.back());
    work_.pop_back();
    for (auto& next : job->successors) work_.push_back(std::move(next));
    job->successors.clear();
  }
}

LaneId Clock::add_lane() {
  lanes_.emplace_back();
  return static_cast<LaneId>(lanes_.size()) - 1;
}

void Clock::set_duplex(LaneId a, LaneId b, double factor) {
  lanes_.at(a).other_direction = b;
  lanes_.at(b).other_direction = a;
  lanes_[a].duplex = lanes_[b].duplex = factor;
}

void Clock::after(Job& job, Job& predecessor) {
  if (predecessor.decided()) {
    job.ready = std::max(job.ready, predecessor.end);
    return;
  }
  ++job.undecided_before;
  predecessor.successors.emplace_back(&job);
}

void Clock::submit(const Ref<Job>& job) {
  if (job->lane != kNoLane && static_cast<std::size_t>(job->lane) >= lanes_.size())
    throw std::logic_error("a job on a lane that the clock does not have");
  if (job->undecided_before == 0) enter(job);
}

// The job has no undecided predecessor: it queues for its lane, or ends at once and lets others in.
void Clock::enter(Ref<Job> first) {
  work_.push_back(std::move(first));
  while (!work_.empty()) {
    Ref<Job> job = std::move(work_.back());
    work_.pop_back();
    if (!job->decided()) {
      if (job->lane != kNoLane) {
        auto& queue = lanes_[job->lane].queue;
        queue.push_back({job->ready, job->number, std::move(job)});
        std::push_heap(queue.begin(), queue.end());
        continue;
      }
      job->begin = job->end = job->ready;
    }
    for (auto& next : job->successors) {
      next->ready = std::max(next->ready, job->end);
      if (--next->undecided_before == 0) work_.push_back(std::move(next));
    }
    job->successors.clear();
  }
}

bool Clock::step(Nanoseconds until) {
  Lane* lane = nullptr;
  Nanoseconds start = 0;
  std::uint64_t number = 0;
  for (Lane& candidate : lanes_) {
    if (candidate.queue.empty()) continue;
    const Waiting& first = candidate.queue.front();
    const Nanoseconds at = std::max(candidate.free_at, first.ready);
    if (lane != nullptr && (at > start || (at == start && first.number > number))) continue;
    lane = &candidate;
    start = at;
    number = first.number;
  }
  if (lane == nullptr || start > until) return false;

  std::pop_heap(lane->queue.begin(), lane->queue.end());
  Ref<Job> job = std::move(lane->queue.back().job);
  lane->queue.pop_back();
  Nanoseconds cost = std::max<Nanoseconds>(job->cost, 1);
  if (lane->other_direction != kNoLane && lanes_[lane->other_direction].free_at > start)
    cost += std::llround((lane->duplex - 1) * static_cast<double>(job->transfer));
  job->begin = start;
  job->end = lane->free_at = start + cost;
  if (observer_) observer_(*job);
  enter(std::move(job));
  return true;
}

void Clock::advance(Nanoseconds now) {
  while (step(now)) {
  }
}

void Clock::settle(const Job& job) {
  while (!job.decided())
    if (!step(std::numeric_limits<Nanoseconds>::max()))
      throw std::logic_error("a job that was never submitted cannot be settled");
}

}  // namespace plimsoll::costmodel
