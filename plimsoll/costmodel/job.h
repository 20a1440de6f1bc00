#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace plimsoll::costmodel {

/// Virtual time and durations.
using Nanoseconds = std::int64_t;

/// A lane of a Clock: one thing that does one job at a time.
using LaneId = std::int32_t;
inline constexpr LaneId kNoLane = -1;

struct Job;

/// Where a job goes when its last reference is gone.
class JobOwner {
 public:
  virtual void recycle(Job& job) noexcept = 0;

 protected:
  ~JobOwner() = default;
};

/// A counted reference to a Job or to what is derived from it. Not for several threads at once: the
/// count is a plain number. No reference may outlive the pool that the job is from.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* job) noexcept : job_(job) {
    if (job_ != nullptr) ++job_->references;
  }
  template <class U>
  Ref(const Ref<U>& other) noexcept : Ref(other.get()) {}
  Ref(const Ref& other) noexcept : Ref(other.job_) {}
  Ref(Ref&& other) noexcept : job_(std::exchange(other.job_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(job_, other.job_);
    return *this;
  }
  ~Ref() {
    if (job_ != nullptr && --job_->references == 0) job_->owner->recycle(*job_);
  }

  T* get() const noexcept { return job_; }
  T* operator->() const noexcept { return job_; }
  T& operator*() const noexcept { return *job_; }
  explicit operator bool() const noexcept { return job_ != nullptr; }

 private:
  T* job_ = nullptr;
};

/// One piece of work in virtual time. Made by a JobPool, filled in, ordered by Clock::after, then
/// given to Clock::submit, which decides when it runs.
struct Job {
  // Set before it is submitted.
  LaneId lane = kNoLane;     ///< kNoLane: takes no time, ends when it is ready
  Nanoseconds cost = 0;      ///< on a lane; less than 1 counts as 1
  Nanoseconds transfer = 0;  ///< the part of `cost` that a duplex factor stretches
  Nanoseconds ready = 0;     ///< not before this time; raised to the ends of its predecessors
  std::uint64_t number = 0;  ///< breaks ties: the lower one first

  // Decided by the clock.
  Nanoseconds begin = -1;
  Nanoseconds end = -1;
  bool decided() const noexcept { return end >= 0; }

  // The clock's and the pool's own.
  std::uint32_t undecided_before = 0;
  std::uint32_t references = 0;
  JobOwner* owner = nullptr;
  std::vector<Ref<Job>> successors;
};

/// Makes jobs of one type and uses their memory again. T is Job, or derives from it and has a
/// `void clear() noexcept` that lets go of everything but the capacity of its lists.
template <class T>
class JobPool final : private JobOwner {
 public:
  JobPool() = default;
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;
  ~JobPool() {
    for (T& job : all_) job.owner = &sink_;  // references between jobs may go in any order
  }

  Ref<T> make() {
    if (free_.empty()) {
      all_.emplace_back();
      if (free_.capacity() < all_.size())
        free_.reserve(2 * all_.size());  // recycle() may not throw
      free_.push_back(&all_.back());
    }
    T* const job = free_.back();
    free_.pop_back();
    job->owner = this;
    return Ref<T>(job);
  }

  /// Jobs that somebody still refers to.
  std::size_t live() const noexcept { return all_.size() - free_.size(); }

 private:
  struct Sink final : JobOwner {
    void recycle(Job&) noexcept override {}
  };

  void recycle(Job& base) noexcept override {
    T& job = static_cast<T&>(base);
    job.lane = kNoLane;
    job.cost = job.transfer = job.ready = 0;
    job.number = 0;
    job.begin = job.end = -1;
    job.undecided_before = 0;
    job.successors.clear();
    if constexpr (requires { job.clear(); }) job.clear();
    free_.push_back(&job);
  }

  Sink sink_;
  std::deque<T> all_;
  std::vector<T*> free_;
};

}  // namespace plimsoll::costmodel
