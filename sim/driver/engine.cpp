#include "sim/driver/engine.h"

#include <algorithm>
#include <utility>

namespace plimsoll::sim {

Engine::Engine(const costmodel::Profile& profile, int devices, Mode mode, std::uint64_t seed,
               Races races, RaceLog& races_found, RaceLog& races_hidden)
    : profile_(profile), schedule_(mode, seed) {
  for (int device = 0; device < devices; ++device) {
    const costmodel::LaneId compute = clock_.add_lane(), in = clock_.add_lane();
    const costmodel::LaneId out = profile.copy_lanes == 1 ? in : clock_.add_lane();
    if (in != out && profile.duplex_factor != 1) clock_.set_duplex(in, out, profile.duplex_factor);
    lanes_.push_back({compute, in, out});
  }
  if (races == Races::kOff) return;
  detectors_.push_back(std::make_unique<RaceDetector>(races == Races::kExact, false, races_found));
  if (races == Races::kWhatif)
    detectors_.push_back(std::make_unique<RaceDetector>(false, true, races_hidden));
}

Stream Engine::add_stream(int device) {
  streams_.emplace_back().device = device;
  schedule_.add_stream();
  for (auto& detector : detectors_) detector->add_stream();
  return Stream{static_cast<std::uint32_t>(streams_.size()) - 1};
}

costmodel::LaneId Engine::lane(int device, Lane lane) const {
  return lanes_.at(device)[static_cast<std::size_t>(lane)];
}

// Tasks.

Ref<Task> Engine::make(Stream stream) {
  Ref<Task> task = pool_.make();
  task->stream = stream.id;
  task->number = number_;
  task->ready = now_;
  return task;
}

void Engine::order(Task& task, Task& predecessor, bool carries_failure) {
  costmodel::Clock::after(task, predecessor);
  schedule_.after(task, predecessor, carries_failure);
}

void Engine::submit(const Ref<Task>& task) {
  schedule_.submit(task);
  clock_.submit(task);
}

void Engine::poke() {
  clock_.advance(now_);
  schedule_.poke();
}

// A full launch queue holds the host back, in virtual time only: it orders nothing.
void Engine::make_room(StreamState& stream) {
  auto& queue = stream.queue;
  clock_.advance(now_);
  while (!queue.empty() && finished(queue.front().get())) queue.pop_front();
  if (queue.size() < static_cast<std::size_t>(profile_.launch_queue)) return;
  jump(queue.front().get());
  ++stalls_;
  queue.pop_front();
}

Sequence Engine::enqueue(Stream stream, Work work) {
  StreamState& state = streams_.at(stream.id);
  now_ += profile_.enqueue;
  if (profile_.launch_queue > 0) make_room(state);
  ++number_;
  Ref<Task> task = make(stream);
  task->lane = lane(work.device, work.lane);
  task->label = work.label;
  task->cost = work.cost;
  task->transfer = work.transfer;
  if (schedule_.mode() != Mode::kCost && !work.failure) task->body = std::move(work.body);
  for (auto& detector : detectors_) detector->task(stream, work.accesses, number_, work.label);
  if (state.tail) order(*task, *state.tail);
  if (work.failure && !task->failure) task->failure = work.failure;
  submit(task);
  if (profile_.launch_queue > 0) state.queue.push_back(task);
  state.tail = std::move(task);
  const Sequence number = number_;
  poke();
  return number;
}

Ref<Task> Engine::mark(Stream stream, std::function<void()> body) {
  StreamState& state = streams_[stream.id];
  Ref<Task> task = make(stream);
  if (schedule_.mode() != Mode::kCost) task->body = std::move(body);
  if (state.tail) order(*task, *state.tail);
  submit(task);
  state.tail = task;
  return task;
}

Ref<Task> Engine::detach(Stream stream, std::span<const Ref<Task>> predecessors,
                         std::function<void()> body) {
  Ref<Task> task = make(stream);
  if (schedule_.mode() != Mode::kCost) task->body = std::move(body);
  for (const auto& before : predecessors)
    if (before) order(*task, *before, /*carries_failure=*/false);
  submit(task);
  return task;
}

void Engine::hold_back(Stream stream, std::span<const Ref<Task>> predecessors) {
  StreamState& state = streams_[stream.id];
  Ref<Task> task = make(stream);
  for (const auto& before : predecessors)
    if (before) schedule_.after(*task, *before, /*carries_failure=*/false);
  if (state.tail) order(*task, *state.tail);
  submit(task);
  state.tail = std::move(task);
}

std::vector<Ref<Task>> Engine::tails(int device) const {
  std::vector<Ref<Task>> tails;
  for (const StreamState& stream : streams_)
    if (stream.tail && (device < 0 || stream.device == device)) tails.push_back(stream.tail);
  return tails;
}

// Events.

void Engine::record(Point& point, Stream stream) {
  now_ += profile_.enqueue;
  point.task = mark(stream);
  for (std::size_t i = 0; i < detectors_.size(); ++i) point.known[i] = detectors_[i]->known(stream);
  poke();
}

void Engine::wait(Stream stream, const Point& point) {
  now_ += profile_.enqueue;
  if (!point.task) return;
  StreamState& state = streams_.at(stream.id);
  Ref<Task> task = make(stream);
  if (state.tail) order(*task, *state.tail);
  if (point.task.get() != state.tail.get()) order(*task, *point.task);
  submit(task);
  state.tail = std::move(task);
  for (std::size_t i = 0; i < detectors_.size(); ++i)
    detectors_[i]->stream_waits(stream, point.known[i]);
  poke();
}

bool Engine::finished(const Task* task) {
  clock_.advance(now_);
  return task == nullptr || (task->decided() && task->end <= now_);
}

void Engine::jump(const Task* task) {
  if (task == nullptr) return;
  clock_.settle(*task);
  now_ = std::max(now_, task->end);
  clock_.advance(now_);
}

void Engine::force(Task* task) {
  if (task != nullptr) schedule_.force(*task);
}

bool Engine::query(const Point& point) {
  now_ += std::max<Nanoseconds>(profile_.query, 1);
  schedule_.poke();
  if (!finished(point.task.get())) return false;
  if (!point.task) return true;
  force(point.task.get());
  for (std::size_t i = 0; i < detectors_.size(); ++i) detectors_[i]->host_waits(point.known[i]);
  if (point.task->failure) std::rethrow_exception(point.task->failure);
  return true;
}

bool Engine::query(Stream stream) {
  StreamState& state = streams_.at(stream.id);
  now_ += std::max<Nanoseconds>(profile_.query, 1);
  schedule_.poke();
  if (!finished(state.tail.get())) return false;
  if (!state.tail) return true;
  force(state.tail.get());
  for (auto& detector : detectors_) detector->host_waits(detector->known(stream));
  deliver(state);
  return true;
}

void Engine::learn(std::size_t detector, const VectorClock& known, const HostWait& wait) {
  RaceDetector& to = *detectors_[detector];
  if (wait.incidental && to.ignores_incidental())
    to.note_incidental(known, wait.label);
  else
    to.host_waits(known);
  // Where the host waits, this only forgets: what is enqueued later is after all of it.
  for (const Access& bytes : wait.bytes) to.settle(bytes, known);
}

// A stream tells of a failure once; it then starts anew, since all before is done.
void Engine::deliver(StreamState& stream) {
  if (!stream.tail || !stream.tail->failure) return;
  const std::exception_ptr failure = stream.tail->failure;
  stream.tail = {};
  std::rethrow_exception(failure);
}

void Engine::synchronize(const Point& point, const HostWait& wait) {
  now_ += profile_.wait;
  if (!point.task) return;
  jump(point.task.get());
  force(point.task.get());
  for (std::size_t i = 0; i < detectors_.size(); ++i) learn(i, point.known[i], wait);
  if (point.task->failure) std::rethrow_exception(point.task->failure);
}

void Engine::synchronize(Stream stream, const HostWait& wait) {
  StreamState& state = streams_.at(stream.id);
  now_ += profile_.wait;
  jump(state.tail.get());
  force(state.tail.get());
  for (std::size_t i = 0; i < detectors_.size(); ++i) learn(i, detectors_[i]->known(stream), wait);
  deliver(state);
}

void Engine::synchronize_device(int device, const HostWait& wait) {
  now_ += profile_.wait;
  const auto each = [&](auto&& call) {
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (device < 0 || streams_[i].device == device) call(i);
  };
  each([&](std::size_t i) { jump(streams_[i].tail.get()); });
  each([&](std::size_t i) { force(streams_[i].tail.get()); });
  each([&](std::size_t i) {
    const Stream stream{static_cast<std::uint32_t>(i)};
    for (std::size_t d = 0; d < detectors_.size(); ++d)
      learn(d, detectors_[d]->known(stream), wait);
  });
  each([&](std::size_t i) { deliver(streams_[i]); });
}

// Timeline.

void Engine::keep_timeline() {
  clock_.observe([this](const costmodel::Job& job) {
    const Task& task = static_cast<const Task&>(job);
    Span span{task.number, task.label, Stream{task.stream}, 0, Lane::kCompute,
              task.begin,  task.end};
    for (std::size_t device = 0; device < lanes_.size(); ++device)
      for (std::size_t lane = 3; lane-- > 0;)
        if (lanes_[device][lane] == task.lane) {
          span.device = static_cast<int>(device);
          span.lane = static_cast<Lane>(lane);
        }
    spans_.push_back(span);
  });
}

std::vector<Span> Engine::spans() const {
  std::vector<Span> spans = spans_;
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.number < b.number; });
  return spans;
}

void Engine::drain() {
  for (StreamState& stream : streams_) force(stream.tail.get());
  clock_.finish();
}

}  // namespace plimsoll::sim
