#pragma once

#include <cstdint>

#include "plimsoll/costmodel/job.h"

/// The simulated accelerator's driver: devices, streams, events, memory, a virtual clock and a race
/// detector, without torch. machine.h is what others use.
namespace plimsoll::sim {

using costmodel::Nanoseconds;
using costmodel::Ref;

/// An address as the program sees it: of the host, or of a device's memory.
using Address = std::uint64_t;

/// Numbers the operations of a machine in the order of the program, from 1.
using Sequence = std::uint64_t;

/// The name of an operation, e.g. "mm [64, 32] x [32, 8]"; see Machine::label. 0 is the empty name.
using Label = std::uint32_t;

/// A queue of tasks of one device. Streams are numbered over all devices of a machine.
struct Stream {
  std::uint32_t id = 0;
  bool operator==(const Stream&) const = default;
  bool operator<(const Stream& other) const noexcept { return id < other.id; }
};

/// A point in a stream, taken by Machine::record; see Machine::create_event.
struct Event {
  std::uint32_t id = 0;
  bool operator==(const Event&) const = default;
};

/// Bytes [begin, end) that an operation reads or writes.
struct Access {
  Address begin = 0, end = 0;
  bool write = false;
};

/// When work is really done. Virtual times, answers, peaks and race reports are the same in each.
enum class Mode {
  kInline,   ///< when it is enqueued
  kExplore,  ///< when somebody must wait, in a legal order drawn from a seed
  kCost,     ///< never: nothing is computed and no memory is backed
};

/// What counts as a race, and what is told of it.
enum class Races {
  kOff,
  kOn,      ///< streams must be ordered with the allocation, too (the stream-ordered contract)
  kExact,   ///< only what touched the same bytes before: an allocation itself orders nothing
  kWhatif,  ///< as `kOn`; also what only incidental waits order
};

}  // namespace plimsoll::sim
