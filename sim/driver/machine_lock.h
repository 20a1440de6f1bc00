#pragma once

#include <mutex>
#include <utility>

#include "plimsoll/base/error.h"
#include "sim/driver/machine.h"

namespace plimsoll::sim {

/// For machine*.cpp: calls are taken one after another. Whoever calls a machine from inside of one
/// of its calls comes from a task's body, and would wait for itself: that throws Error.
class Machine::Lock {
 public:
  explicit Lock(const Machine& machine) : lock_(machine.mutex_, std::defer_lock) {
    if (inside_ == &machine) throw Error("a task's body must not call the machine it runs on");
    lock_.lock();
    outer_ = std::exchange(inside_, &machine);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { inside_ = outer_; }

 private:
  static inline thread_local const Machine* inside_ = nullptr;
  const Machine* outer_ = nullptr;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace plimsoll::sim
