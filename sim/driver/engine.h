#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/costmodel/clock.h"
#include "plimsoll/costmodel/profile.h"
#include "sim/driver/race_detector.h"
#include "sim/driver/schedule.h"
#include "sim/driver/types.h"

namespace plimsoll::sim {

/// Lanes of a device.
enum class Lane { kCompute, kCopyIn, kCopyOut };

/// One task on a lane, as the timeline shows it.
struct Span {
  Sequence number = 0;
  Label label = 0;
  Stream stream;
  int device = 0;
  Lane lane = Lane::kCompute;
  Nanoseconds begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

/// How the host waits. An incidental wait orders, for Races::kWhatif, only the bytes it was for.
struct HostWait {
  bool incidental = false;
  Label label = 0;
  std::span<const Access> bytes;
};

/// Streams and the host: virtual time, real execution and the race detectors, kept in step. What
/// the allocators decide is built on it. A wait of the host has three effects that rules tell
/// apart: virtual time jumps (`jump`), the real work is run (`force`), and the host knows what the
/// other side knew (a happens-before edge).
///
/// One thread at a time; Machine locks.
class Engine {
 public:
  Engine(const costmodel::Profile& profile, int devices, Mode mode, std::uint64_t seed, Races races,
         RaceLog& races_found, RaceLog& races_hidden);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// A point in a stream as record() took it. A waiter keeps what it saw.
  struct Point {
    Ref<Task> task;  ///< none: never recorded, which counts as done
    std::array<VectorClock, 2> known;
  };

  Stream add_stream(int device);
  std::size_t streams() const noexcept { return streams_.size(); }
  int device_of(Stream stream) const { return streams_.at(stream.id).device; }

  // The host's time.
  Nanoseconds now() const noexcept { return now_; }
  void charge(Nanoseconds cost) noexcept { now_ += cost; }
  Sequence next_number() noexcept { return ++number_; }
  Sequence last_number() const noexcept { return number_; }
  /// The host did something; also decides what has started by now.
  void poke();

  // Work.
  struct Work {
    Lane lane = Lane::kCompute;
    int device = 0;
    Label label = 0;
    Nanoseconds cost = 0, transfer = 0;
    std::span<const Access> accesses;
    std::function<void()> body;
    std::exception_ptr failure;  ///< fails with it; the body is then not run
  };
  Sequence enqueue(Stream stream, Work work);
  /// Work that takes no virtual time, no number and no lane, in the order of the stream.
  Ref<Task> mark(Stream stream, std::function<void()> body = {});
  /// The same after `predecessors`, and in no stream's order. Carries no failure.
  Ref<Task> detach(Stream stream, std::span<const Ref<Task>> predecessors,
                   std::function<void()> body);
  /// What is enqueued on `stream` from now on really runs after these: a hidden dependency, which
  /// neither time nor the detectors know of.
  void hold_back(Stream stream, std::span<const Ref<Task>> predecessors);
  /// The last task of a stream, none where it never had one.
  const Ref<Task>& tail(Stream stream) const { return streams_.at(stream.id).tail; }
  /// Those of all streams of a device, or of all devices with -1.
  std::vector<Ref<Task>> tails(int device) const;

  // Events.
  void record(Point& point, Stream stream);
  void wait(Stream stream, const Point& point);
  bool query(const Point& point);
  bool query(Stream stream);

  void synchronize(const Point& point, const HostWait& wait = {});
  void synchronize(Stream stream, const HostWait& wait = {});
  /// All streams of a device, or of all of them with -1.
  void synchronize_device(int device, const HostWait& wait = {});

  // Parts of a wait, for the allocators.
  bool finished(const Task* task);  ///< in virtual time
  void jump(const Task* task);
  void force(Task* task);

  /// The detectors that are on; empty with Races::off.
  std::span<const std::unique_ptr<RaceDetector>> detectors() const noexcept { return detectors_; }
  Schedule& schedule() noexcept { return schedule_; }
  costmodel::Clock& clock() noexcept { return clock_; }
  const costmodel::Profile& profile() const noexcept { return profile_; }
  std::uint64_t stalls() const noexcept { return stalls_; }
  std::size_t live_tasks() const noexcept { return pool_.live(); }

  /// Keep a timeline from now on; spans() are those decided so far, by number.
  void keep_timeline();
  std::vector<Span> spans() const;

  /// Runs and decides everything; the host's time stands still.
  void drain();

 private:
  struct StreamState {
    int device = 0;
    Ref<Task> tail;
    std::deque<Ref<Task>> queue;  // only with a bounded launch queue
  };

  costmodel::LaneId lane(int device, Lane lane) const;
  Ref<Task> make(Stream stream);
  void order(Task& task, Task& predecessor, bool carries_failure = true);
  void submit(const Ref<Task>& task);
  void make_room(StreamState& stream);
  void learn(std::size_t detector, const VectorClock& known, const HostWait& wait);
  void deliver(StreamState& stream);

  const costmodel::Profile profile_;
  costmodel::JobPool<Task> pool_;  // outlives all that refers to tasks
  costmodel::Clock clock_;
  Schedule schedule_;
  std::vector<std::array<costmodel::LaneId, 3>> lanes_;  // by device and Lane
  std::vector<StreamState> streams_;
  std::vector<std::unique_ptr<RaceDetector>> detectors_;
  Nanoseconds now_ = 0;
  Sequence number_ = 0;
  std::uint64_t stalls_ = 0;
  std::vector<Span> spans_;
};

}  // namespace plimsoll::sim
