#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace plimsoll::checkpoint {

/// One thread that runs one job at a time. The first exception of a job is kept and thrown once, at
/// the next wait() or submit(). All calls from one owner thread.
class Background {
 public:
  Background();
  /// Finishes the job under way, then joins; an unseen error is dropped.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Waits for the previous job, throws its error if it failed (`job` is then not run), else starts
  /// `job` and returns.
  void submit(std::function<void()> job);
  /// Waits until nothing runs; throws the kept error, once.
  void wait();
  bool busy() const;

 private:
  void run();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::function<void()> job_;
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace plimsoll::checkpoint
