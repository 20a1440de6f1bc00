#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace plimsoll::sim {

/// What can be made to fail.
enum class Fault {
  kAllocation,        ///< throws OutOfMemoryError
  kPinnedAllocation,  ///< throws Error
  kCopy,              ///< the copy does not happen; the next wait that covers it throws Error
  kKernel,            ///< the same for a task on the compute lane
  kDevice,            ///< at a kernel or copy, its device is lost, for good
};

/// The `nth` operation of a kind fails (from 1), and every `every`-th; 0 is never.
struct FaultRule {
  Fault kind = Fault::kCopy;
  std::uint64_t nth = 0, every = 0;
};

/// Counts operations and says which fail.
class Faults {
 public:
  void add(FaultRule rule) { rules_.push_back(rule); }
  void clear() noexcept { rules_.clear(); }
  /// Counts one more; true if it fails.
  bool strikes(Fault kind) noexcept {
    const std::uint64_t count = ++counts_[static_cast<std::size_t>(kind)];
    for (const FaultRule& rule : rules_)
      if (rule.kind == kind && (count == rule.nth || (rule.every > 0 && count % rule.every == 0)))
        return true;
    return false;
  }
  std::uint64_t count(Fault kind) const noexcept { return counts_[static_cast<std::size_t>(kind)]; }

 private:
  std::vector<FaultRule> rules_;
  std::array<std::uint64_t, 5> counts_{};
};

}  // namespace plimsoll::sim
