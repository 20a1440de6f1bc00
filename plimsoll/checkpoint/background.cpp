#include "plimsoll/checkpoint/background.h"

#include <utility>

namespace plimsoll::checkpoint {

Background::Background() : thread_([this] { run(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::submit(std::function<void()> job) {
  wait();
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    busy_ = true;
  }
  changed_.notify_all();
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool Background::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (!busy_) return;
    std::function<void()> job = std::exchange(job_, nullptr);
    lock.unlock();
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    job = nullptr;  // what it holds is gone before anybody sees "not busy"
    lock.lock();
    error_ = std::move(error);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace plimsoll::checkpoint
