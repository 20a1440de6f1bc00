// The part of Machine that puts work into streams: kernels, copies, what the host does itself, and
// the faults that make them fail.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/error.h"
#include "sim/driver/machine.h"
#include "sim/driver/machine_lock.h"

namespace plimsoll::sim {

// Faults.

void Machine::add_fault(FaultRule rule) {
  const Lock lock(*this);
  faults_.add(rule);
}

void Machine::clear_faults() {
  const Lock lock(*this);
  faults_.clear();
}

void Machine::lose_device(int device) {
  const Lock lock(*this);
  (void)this->device(device);
  devices_[device].lost = true;
}

void Machine::slow_link(double factor) {
  const Lock lock(*this);
  if (!(factor >= 1))
    throw Error(fmt::format("a link is slowed by a factor of 1 or more, not {}", factor));
  link_factor_ = factor;
}

void Machine::refuse_if_lost(int device) const {
  if (devices_[device].lost) throw Error(fmt::format("device {} is lost", device));
}

std::exception_ptr Machine::fault(Fault kind, int device, const char* what, Label label) {
  if (faults_.strikes(Fault::kDevice)) devices_[device].lost = true;
  const bool strikes = faults_.strikes(kind);
  if (devices_[device].lost)
    return std::make_exception_ptr(Error(fmt::format("device {} is lost", device)));
  if (!strikes) return nullptr;
  const std::string& name = texts_.at(label);
  return std::make_exception_ptr(
      Error(fmt::format("{} {}{} failed (a fault that was asked for)", what, faults_.count(kind),
                        name.empty() ? name : " '" + name + "'")));
}

// Kernels and copies.

Sequence Machine::launch(Stream stream, Kernel kernel) {
  const Lock lock(*this);
  check(stream);
  Engine::Work work;
  work.device = engine_->device_of(stream);
  work.label = kernel.label;
  work.cost = kernel.cost;
  work.accesses = kernel.accesses;
  work.body = std::move(kernel.body);
  work.failure = fault(Fault::kKernel, work.device, "kernel", kernel.label);
  return engine_->enqueue(stream, std::move(work));
}

Sequence Machine::copy(Stream stream, Address to, Address from, std::uint64_t bytes, Label label) {
  const Lock lock(*this);
  check(stream);
  const auto& profile = engine_->profile();
  const int source = device_at(from), target = device_at(to);
  if (source < 0 && target < 0)
    throw Error("a copy from host memory to host memory is the host's own");
  const Access accesses[] = {{from, from + bytes, false}, {to, to + bytes, true}};
  const double size = static_cast<double>(bytes);

  Engine::Work work;
  work.label = label;
  work.accesses = accesses;
  work.device = source >= 0 ? source : target;
  if (mode_ != Mode::kCost && bytes > 0)
    work.body = [to = for_tasks(to), from = for_tasks(from), bytes] {
      std::memmove(to, from, bytes);
    };

  if (source == target) {  // a kernel that reads and writes
    work.cost = costmodel::kernel_cost(profile, 0, "fp32", 2 * size);
    work.failure = fault(Fault::kCopy, work.device, "copy", label);
    return engine_->enqueue(stream, std::move(work));
  }
  if (source >= 0 && target >= 0) {
    work.lane = Lane::kCopyOut;
    work.transfer = costmodel::duration(size * link_factor_, profile.link_peer);
    work.cost = profile.copy_latency + work.transfer;
    work.failure = fault(Fault::kCopy, work.device, "copy", label);
    return engine_->enqueue(stream, std::move(work));
  }

  const bool out = source >= 0;
  const Address host = out ? to : from;
  const bool pinned = host_->is_pinned(host, bytes);
  work.lane = out ? Lane::kCopyOut : Lane::kCopyIn;
  const double rate = out ? profile.link_out : profile.link_in;
  const Nanoseconds fast = costmodel::duration(size * link_factor_, rate);
  const Nanoseconds slow = costmodel::duration(size * link_factor_ * profile.pageable_factor, rate);
  work.transfer = out && !pinned ? slow : fast;
  work.cost = profile.copy_latency + work.transfer;
  work.failure = fault(Fault::kCopy, work.device, "copy", label);
  if (pinned) host_->use(host, stream);

  if (!pinned && !out) {
    // The host stages the bytes, so the source is free at once; the transfer is asynchronous.
    for (auto& detector : engine_->detectors())
      detector->host(accesses[0], engine_->last_number() + 1, label);
    work.accesses = {accesses + 1, 1};
    engine_->charge(slow - fast);
    if (work.body) {
      const auto* const begin = reinterpret_cast<const std::byte*>(from);
      work.body = [staged = std::vector<std::byte>(begin, begin + bytes), to = for_tasks(to)] {
        std::memcpy(to, staged.data(), staged.size());
      };
    }
  }
  const Sequence number = engine_->enqueue(stream, std::move(work));
  if (!pinned && out)
    engine_->synchronize(stream, {.incidental = true, .label = label, .bytes = {accesses + 1, 1}});
  return number;
}

// The host.

Address Machine::allocate_host(std::uint64_t bytes, Label label) {
  const Lock lock(*this);
  if (faults_.strikes(Fault::kPinnedAllocation))
    throw Error(fmt::format("pinned allocation {} failed (a fault that was asked for)",
                            faults_.count(Fault::kPinnedAllocation)));
  return host_->allocate(bytes);
}

void Machine::free_host(Address begin, Label label) {
  const Lock lock(*this);
  host_->free(begin, label);
}

bool Machine::is_pinned(Address begin, std::uint64_t bytes) const {
  const Lock lock(*this);
  return host_->is_pinned(begin, bytes);
}

void Machine::use_host(Address at, Stream stream) {
  const Lock lock(*this);
  check(stream);
  host_->use(at, stream);
}

void Machine::empty_host_cache() {
  const Lock lock(*this);
  host_->empty_cache();
}

void Machine::host_access(const Access& bytes, Label label, const std::function<void()>& body) {
  const Lock lock(*this);
  engine_->charge(engine_->profile().host_access);
  engine_->poke();
  const Sequence number = engine_->next_number();
  for (auto& detector : engine_->detectors()) detector->host(bytes, number, label);
  if (body && mode_ != Mode::kCost) body();
}

void Machine::charge(Nanoseconds cost) {
  const Lock lock(*this);
  engine_->charge(std::max<Nanoseconds>(cost, 0));
}

}  // namespace plimsoll::sim
