#include "sim/driver/machine.h"

#include <fmt/format.h>

#include <utility>

#include "plimsoll/base/error.h"
#include "sim/driver/machine_lock.h"

namespace plimsoll::sim {

Machine::Machine(MachineOptions options) : mode_(options.mode), texts_(1), found_(options.on_race) {
  if (options.devices < 1)
    throw Error(fmt::format("a machine has at least one device, not {}", options.devices));
  labels_.emplace(texts_.front(), 0);
  engine_ = std::make_unique<Engine>(options.profile, options.devices, mode_, options.seed,
                                     options.races, found_, hidden_);
  if (options.timeline) engine_->keep_timeline();
  const bool backed = mode_ != Mode::kCost;
  for (int i = 0; i < options.devices; ++i) {
    Device device;
    device.memory = std::make_unique<DeviceMemory>(options.profile.capacity, backed);
    device.allocator =
        std::make_unique<Allocator>(*engine_, *device.memory, i, options.poison && backed);
    for (auto& detector : engine_->detectors())
      detector->guard(device.memory->begin(), device.memory->end());
    devices_.push_back(std::move(device));
  }
  host_ = std::make_unique<HostMemory>(*engine_, options.poison && backed);
  for (const FaultRule& rule : options.faults) faults_.add(rule);
}

// Whatever refers to tasks goes before the engine.
Machine::~Machine() {
  events_.clear();
  host_.reset();
  for (Device& device : devices_) device.allocator.reset();
  engine_.reset();
}

// Names.

Label Machine::label(std::string_view text) {
  const Lock lock(*this);
  if (const auto found = labels_.find(text); found != labels_.end()) return found->second;
  const auto label = static_cast<Label>(texts_.size());
  labels_.emplace(texts_.emplace_back(text), label);
  return label;
}

std::string Machine::text_of(Label label) const {
  const Lock lock(*this);
  return label < texts_.size() ? texts_[label] : std::string();
}

std::string Machine::stream_name(std::uint32_t stream) const {
  if (stream >= stream_names_.size()) return "?";
  const std::string& name = stream_names_[stream];
  return name.empty() ? fmt::format("{}", stream) : fmt::format("{} ({})", stream, name);
}

// Streams.

const Machine::Device& Machine::device(int index) const {
  if (index < 0 || index >= devices())
    throw Error(fmt::format("there is no device {}; there are {}", index, devices()));
  return devices_[index];
}

void Machine::check(Stream stream) const {
  if (stream.id >= stream_names_.size())
    throw Error(fmt::format("there is no stream {}", stream.id));
}

Stream Machine::create_stream(int device, std::string name) {
  const Lock lock(*this);
  (void)this->device(device);
  stream_names_.push_back(std::move(name));
  return engine_->add_stream(device);
}

int Machine::device_of(Stream stream) const {
  const Lock lock(*this);
  check(stream);
  return engine_->device_of(stream);
}

bool Machine::query(Stream stream) {
  const Lock lock(*this);
  check(stream);
  refuse_if_lost(engine_->device_of(stream));
  return engine_->query(stream);
}

void Machine::synchronize(Stream stream, bool incidental, Label label) {
  const Lock lock(*this);
  check(stream);
  engine_->synchronize(stream, {.incidental = incidental, .label = label});
  refuse_if_lost(engine_->device_of(stream));
}

void Machine::synchronize_device(int device, bool incidental, Label label) {
  const Lock lock(*this);
  (void)this->device(device);
  engine_->synchronize_device(device, {.incidental = incidental, .label = label});
  refuse_if_lost(device);
}

// Events.

Engine::Point& Machine::point(Event event) {
  if (event.id >= events_.size() || !events_[event.id])
    throw Error(fmt::format("there is no event {}", event.id));
  return *events_[event.id];
}

Event Machine::create_event() {
  const Lock lock(*this);
  if (free_events_.empty()) {
    events_.emplace_back(std::in_place);
    return Event{static_cast<std::uint32_t>(events_.size()) - 1};
  }
  const std::uint32_t id = free_events_.back();
  free_events_.pop_back();
  events_[id].emplace();
  return Event{id};
}

void Machine::destroy_event(Event event) {
  const Lock lock(*this);
  (void)point(event);
  events_[event.id].reset();
  free_events_.push_back(event.id);
}

void Machine::record(Event event, Stream stream) {
  const Lock lock(*this);
  check(stream);
  engine_->record(point(event), stream);
}

void Machine::wait(Stream stream, Event event) {
  const Lock lock(*this);
  check(stream);
  engine_->wait(stream, point(event));
}

bool Machine::query(Event event) {
  const Lock lock(*this);
  return engine_->query(point(event));
}

void Machine::synchronize(Event event, bool incidental, Label label) {
  const Lock lock(*this);
  engine_->synchronize(point(event), {.incidental = incidental, .label = label});
}

Nanoseconds Machine::elapsed(Event from, Event to) {
  const Lock lock(*this);
  const Task* const first = point(from).task.get();
  const Task* const last = point(to).task.get();
  if (first == nullptr || last == nullptr)
    throw Error("elapsed time of an event that was never recorded");
  if (!engine_->finished(first) || !engine_->finished(last))
    throw Error("elapsed time of an event that is not done", "wait for it first");
  return last->end - first->end;
}

// Device memory.

Address Machine::allocate(int device, std::uint64_t bytes, Stream stream, Label label) {
  const Lock lock(*this);
  check(stream);
  Allocator& allocator = *this->device(device).allocator;
  if (engine_->device_of(stream) != device)
    throw Error(fmt::format("stream {} is not of device {}", stream_name(stream.id), device));
  refuse_if_lost(device);
  if (faults_.strikes(Fault::kAllocation)) throw allocator.injected_failure(bytes);
  return allocator.allocate(bytes, stream, label);
}

void Machine::free(Address begin, Label label) {
  const Lock lock(*this);
  const int at = device_at(begin);
  if (at < 0) throw Error("free of an address that is not in device memory");
  devices_[at].allocator->free(begin, label);
}

void Machine::record_stream(Address begin, Stream stream) {
  const Lock lock(*this);
  check(stream);
  const int at = device_at(begin);
  if (at < 0) throw Error("record_stream of an address that is not in device memory");
  devices_[at].allocator->record_stream(begin, stream);
}

void Machine::empty_cache(int device) {
  const Label name = label("empty_cache");
  const Lock lock(*this);
  this->device(device).allocator->empty_cache(name);
}

std::optional<Allocation> Machine::find(Address at) const {
  const Lock lock(*this);
  const int device = device_at(at);
  if (device < 0) return std::nullopt;
  return devices_[device].allocator->find(at);
}

MemoryStatistics Machine::statistics(int device) const {
  const Lock lock(*this);
  return this->device(device).allocator->statistics();
}

void Machine::reset_peak_statistics(int device) {
  const Lock lock(*this);
  this->device(device).allocator->statistics().reset_peak();
}

void Machine::reset_accumulated_statistics(int device) {
  const Lock lock(*this);
  this->device(device).allocator->statistics().reset_accumulated();
}

std::pair<std::uint64_t, std::uint64_t> Machine::memory_info(int device) const {
  const Lock lock(*this);
  const Device& of = this->device(device);
  return {of.memory->capacity() - of.allocator->reserved(), of.memory->capacity()};
}

int Machine::device_at(Address at) const noexcept {
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].memory->contains(at)) return static_cast<int>(i);
  return -1;
}

std::byte* Machine::for_tasks(Address at) const noexcept {
  const int device = device_at(at);
  return device < 0 ? reinterpret_cast<std::byte*>(at) : devices_[device].memory->for_tasks(at);
}

// What was seen.

Nanoseconds Machine::now() const {
  const Lock lock(*this);
  return engine_->now();
}

Sequence Machine::operations() const {
  const Lock lock(*this);
  return engine_->last_number();
}

std::vector<RaceReport> Machine::races() const {
  const Lock lock(*this);
  std::vector<RaceReport> reports = found_.reports();
  for (const RaceReport& report : hidden_.reports()) {
    if (found_.contains(report.race)) continue;
    reports.push_back(report);
    reports.back().only_if = true;
  }
  for (RaceReport& report : reports)
    report.text = describe(
        report, [this](Label label) { return texts_.at(label); },
        [this](std::uint32_t stream) { return stream_name(stream); });
  return reports;
}

void Machine::clear_races() {
  const Lock lock(*this);
  found_.clear();
  hidden_.clear();
}

std::vector<Span> Machine::timeline() const {
  const Lock lock(*this);
  return engine_->spans();
}

void Machine::drain() {
  const Lock lock(*this);
  engine_->drain();
}

Machine::Footprint Machine::footprint() const {
  const Lock lock(*this);
  Footprint footprint;
  footprint.live_tasks = engine_->live_tasks();
  footprint.stalls = engine_->stalls();
  for (const auto& detector : engine_->detectors()) footprint.detector_cells += detector->cells();
  return footprint;
}

}  // namespace plimsoll::sim
