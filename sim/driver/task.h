#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "sim/driver/types.h"

namespace plimsoll::sim {

/// A job of the virtual clock that also really runs: the two graphs have the same nodes but need
/// not have the same edges. Markers (events, waits) are tasks without a body.
struct Task : costmodel::Job {
  struct Successor {
    Ref<Task> task;
    bool carries_failure;
  };

  std::uint32_t stream = 0;
  Label label = 0;
  std::function<void()> body;
  std::exception_ptr failure;  ///< the first of its own and of those before it

  // Schedule's own.
  bool executed = false;
  std::uint32_t unexecuted_before = 0;
  std::uint32_t mark = 0;
  std::vector<Successor> waiting;
  std::vector<Ref<Task>> needs;

  void clear() noexcept {
    body = nullptr;
    failure = nullptr;
    executed = false;
    unexecuted_before = 0;
    waiting.clear();
    needs.clear();
  }
};

}  // namespace plimsoll::sim
