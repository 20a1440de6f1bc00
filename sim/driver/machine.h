#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/costmodel/profile.h"
#include "sim/driver/allocator.h"
#include "sim/driver/engine.h"
#include "sim/driver/faults.h"
#include "sim/driver/host_memory.h"
#include "sim/driver/race.h"
#include "sim/driver/types.h"

namespace plimsoll::sim {

struct MachineOptions {
  costmodel::Profile profile;
  int devices = 1;
  Mode mode = Mode::kInline;
  std::uint64_t seed = 1;  ///< of Mode::kExplore
  Races races = Races::kOn;
  bool poison = true;     ///< fill freed memory, in the order of its stream
  bool timeline = false;  ///< keep a Span of each task
  std::vector<FaultRule> faults;
  /// Sees each race by itself; for tests. It must not call the machine.
  RaceLog::Observer on_race;
};

/// A task for a device's compute lane. `accesses` is read before launch() returns.
struct Kernel {
  Label label = 0;
  Nanoseconds cost = 0;  ///< see costmodel::kernel_cost
  std::span<const Access> accesses;
  std::function<void()> body;  ///< works on for_tasks() pointers; may be empty
};

/// Simulated devices with their streams, events and memory, and the one host that uses them.
///
/// Time is virtual: now() moves when the host does something that costs, and when it waits. What
/// the program is told (times, answers of queries, addresses, races) depends on the program alone,
/// never on how fast this machine is or on the mode.
///
/// Any thread may call; calls are taken one after another, in the order in which they arrive.
/// Bodies run during calls (see Mode) and must not call the machine: that throws Error. What a body
/// throws, and what a fault makes fail, is kept and carried by streams and events behind it; the
/// first is thrown by the next call that waits for it or is told that it is done: by a stream once,
/// by an event each time.
class Machine {
 public:
  explicit Machine(MachineOptions options);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  /// Tasks that have not run are dropped.
  ~Machine();

  int devices() const noexcept { return static_cast<int>(devices_.size()); }
  const costmodel::Profile& profile() const noexcept { return engine_->profile(); }
  Mode mode() const noexcept { return mode_; }

  /// The same text gives the same label.
  Label label(std::string_view text);
  std::string text_of(Label label) const;

  // Streams. Names are for reports; without one, a stream is called by its number.
  Stream create_stream(int device, std::string name = {});
  int device_of(Stream stream) const;
  /// Does the stream have nothing left to do? If so, its work is done and the host knows it.
  bool query(Stream stream);
  void synchronize(Stream stream, bool incidental = false, Label label = 0);
  /// All streams of a device.
  void synchronize_device(int device, bool incidental = false, Label label = 0);

  // Events. Recording takes the point the stream is at; recording again does not change what was
  // waited for before. An event that was never recorded is done.
  Event create_event();
  void destroy_event(Event event);
  void record(Event event, Stream stream);
  void wait(Stream stream, Event event);
  bool query(Event event);
  void synchronize(Event event, bool incidental = false, Label label = 0);
  /// Virtual nanoseconds between two recorded events that are done; throws Error for others.
  Nanoseconds elapsed(Event from, Event to);

  // Work. Each returns the number of the operation.
  Sequence launch(Stream stream, Kernel kernel);
  /// Copies `bytes` between devices, or between a device and the host. Pinned host memory is what
  /// allocate_host gave. Copies with pageable memory: out, the host waits (incidentally) until the
  /// end; in, the source is free when this returns and the host pays for staging.
  Sequence copy(Stream stream, Address to, Address from, std::uint64_t bytes, Label label = 0);

  // Device memory; see Allocator.
  Address allocate(int device, std::uint64_t bytes, Stream stream, Label label = 0);
  void free(Address begin, Label label = 0);
  void record_stream(Address begin, Stream stream);
  void empty_cache(int device);
  std::optional<Allocation> find(Address at) const;
  MemoryStatistics statistics(int device) const;
  void reset_peak_statistics(int device);
  void reset_accumulated_statistics(int device);
  /// Bytes that no segment holds, and all there are.
  std::pair<std::uint64_t, std::uint64_t> memory_info(int device) const;
  /// The device whose memory holds the byte, or -1 for host memory.
  int device_at(Address at) const noexcept;
  /// Where a body finds the bytes that the program calls `at`; host memory is where it is. nullptr
  /// for device memory in Mode::kCost.
  std::byte* for_tasks(Address at) const noexcept;

  // Host memory and work of the host itself.
  Address allocate_host(std::uint64_t bytes, Label label = 0);
  void free_host(Address begin, Label label = 0);
  bool is_pinned(Address begin, std::uint64_t bytes) const;
  /// A pinned block is used by work that copy() does not know of.
  void use_host(Address at, Stream stream);
  void empty_host_cache();
  /// The host reads or writes bytes of its memory: checked against what streams do with them.
  /// `body` runs in this call, after what explore chose to run first; not in Mode::kCost.
  void host_access(const Access& bytes, Label label = 0, const std::function<void()>& body = {});
  /// The host works for so long.
  void charge(Nanoseconds cost);

  // What was seen.
  Nanoseconds now() const;
  Sequence operations() const;
  /// Races by kind in the order in which they were first seen; then, with Races::kWhatif, warnings
  /// of those that only incidental waits order. With text.
  std::vector<RaceReport> races() const;
  void clear_races();
  /// The tasks decided so far, by number; needs MachineOptions::timeline.
  std::vector<Span> timeline() const;
  /// For the end of a program: runs all that was enqueued and decides its times, while the host's
  /// time and knowledge stay. What is enqueued afterwards may start later than it should.
  void drain();

  // Faults; see FaultRule.
  void add_fault(FaultRule rule);
  void clear_faults();
  /// From now on whatever is enqueued on the device fails, and allocations and waits throw Error.
  void lose_device(int device);
  /// Copies over the links take `factor` (1 or more) times longer from now on, latency apart.
  void slow_link(double factor);

  /// What it costs to be here, for benchmarks.
  struct Footprint {
    std::size_t live_tasks = 0, detector_cells = 0;
    std::uint64_t stalls = 0;  ///< times a full launch queue held the host back
  };
  Footprint footprint() const;

 private:
  class Lock;
  struct Device {
    std::unique_ptr<DeviceMemory> memory;
    std::unique_ptr<Allocator> allocator;
    bool lost = false;
  };

  const Device& device(int index) const;
  void check(Stream stream) const;
  Engine::Point& point(Event event);
  /// Counts an operation on a device; what it fails with, if it does.
  std::exception_ptr fault(Fault kind, int device, const char* what, Label label);
  void refuse_if_lost(int device) const;
  std::string stream_name(std::uint32_t stream) const;

  mutable std::mutex mutex_;
  const Mode mode_;
  std::deque<std::string> texts_;
  std::map<std::string_view, Label> labels_;
  RaceLog found_, hidden_;
  std::unique_ptr<Engine> engine_;
  std::vector<Device> devices_;
  std::unique_ptr<HostMemory> host_;
  std::vector<std::string> stream_names_;
  std::vector<std::optional<Engine::Point>> events_;
  std::vector<std::uint32_t> free_events_;
  Faults faults_;
  double link_factor_ = 1;
};

}  // namespace plimsoll::sim
