#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace plimsoll::bench {

/// Calls of an operator and the seconds it spent itself, without those of the operators and
/// allocations inside it.
struct OpTime {
  int64_t calls = 0;
  double seconds = 0;
};

/// Where the time of the calling thread went while an OpRecorder lived.
struct OpTimes {
  std::map<std::pair<std::string, std::string>, OpTime> ops;  ///< by {phase, operator}
  OpTime allocation;  ///< CPU tensors' memory, taken and given back
};

/// Times every operator that the thread that made it calls, through torch's own callbacks, and puts
/// a timed allocator before the one that CPU tensors come from. A matrix product is named with its
/// shapes: "aten::mm 16384x256 * 256x768'", a ' for an operand that is read transposed. Costs about
/// a microsecond a call. One at a time; everything by the thread that made it.
class OpRecorder {
 public:
  OpRecorder();
  /// The allocator stays, without a clock: tensors may still hold its blocks.
  ~OpRecorder();
  OpRecorder(const OpRecorder&) = delete;
  OpRecorder& operator=(const OpRecorder&) = delete;

  /// Operators from now on are of this phase.
  void phase(std::string name);
  /// Forgets what it has recorded.
  void reset();
  const OpTimes& times() const;

 private:
  uint64_t handle_;
};

}  // namespace plimsoll::bench
