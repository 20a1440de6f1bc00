#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/driver/types.h"
#include "sim/driver/vector_clock.h"

namespace plimsoll::sim {

enum class OperationKind : std::uint8_t {
  kTask,
  kHost,        ///< a read or write by the host itself
  kAllocation,  ///< counts as a write of its stream
  kFree,     ///< counts as a write of its stream joined with those that the block was recorded on
  kNothing,  ///< there never was an allocation
};

/// One side of a race.
struct Operation {
  static constexpr std::uint32_t kHostStream = ~0u;

  Sequence number = 0;
  std::uint32_t stream = kHostStream;
  Label label = 0;
  OperationKind kind = OperationKind::kTask;
  bool write = false;
};

/// Two operations on the same bytes, one of them a write, that nothing orders; or an access to
/// bytes that are not allocated, ordered or not.
struct Race {
  Operation first, second;  ///< in the order of the program
  bool use_after_free = false;
  Address begin = 0, end = 0;    ///< from the first to the last byte both touch
  std::uint64_t allocation = 0;  ///< its number; 0: memory that no allocator of the machine gave
  std::uint64_t offset = 0;      ///< of `begin` in it
  VectorClock::Step known = 0;   ///< how far the second operation knows the first one's stream
  VectorClock::Step needed = 0;  ///< how far it would have to
};

/// Races between operations of the same names, streams and kinds.
struct RaceReport {
  Race race;  ///< the first of them
  std::uint64_t count = 0;
  bool only_if = false;  ///< a warning of Races::kWhatif: real only without the wait named below
  Label hidden_by = 0;
  std::string text;  ///< one line; see describe()
};

/// Collects races into reports. Not for several threads at once.
class RaceLog {
 public:
  using Observer = std::function<void(const Race&)>;

  explicit RaceLog(Observer observer = {}) : observer_(std::move(observer)) {}

  void add(const Race& race, Label hidden_by = 0);
  /// In the order in which each was first seen; without text.
  const std::vector<RaceReport>& reports() const noexcept { return reports_; }
  /// Has this very kind of race been added?
  bool contains(const Race& race) const { return index_.contains(key(race)); }
  std::uint64_t races() const noexcept { return races_; }
  void clear();

 private:
  using Key = std::tuple<Label, Label, std::uint32_t, std::uint32_t, OperationKind, OperationKind,
                         bool, bool, bool>;
  static Key key(const Race& race);

  Observer observer_;
  std::map<Key, std::size_t> index_;
  std::vector<RaceReport> reports_;
  std::uint64_t races_ = 0;
};

/// One line: both operations, both streams, the bytes, the allocation and the missing edge. No
/// addresses, so that it is the same in every run.
std::string describe(const RaceReport& report, const std::function<std::string(Label)>& label,
                     const std::function<std::string(std::uint32_t)>& stream);

}  // namespace plimsoll::sim
