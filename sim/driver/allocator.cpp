#include "sim/driver/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/units.h"

namespace plimsoll::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kRounding = 512;
constexpr std::uint64_t kSmallLimit = kMiB, kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kLargeSegment = 20 * kMiB, kOwnSegmentFrom = 10 * kMiB;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::string size(std::uint64_t bytes) {
  return format_bytes(static_cast<std::int64_t>(std::min(bytes, std::uint64_t{INT64_MAX})));
}

// What has run needs no waiting for.
void drop_executed(std::vector<Ref<Task>>& tasks) {
  std::erase_if(tasks, [](const Ref<Task>& task) { return task->executed; });
}

}  // namespace

OutOfMemoryError::OutOfMemoryError(int device, std::uint64_t requested, std::uint64_t free,
                                   std::uint64_t reserved, std::uint64_t allocated,
                                   std::uint64_t capacity, bool injected)
    : Error(
          fmt::format("out of memory on device {}: {} requested, {} free, {} reserved of which {} "
                      "allocated, capacity {}{}",
                      device, size(requested), size(free), size(reserved), size(allocated),
                      size(capacity), injected ? " (a fault that was asked for)" : ""),
          "free something, use smaller batches, or keep less on the device"),
      requested(requested),
      free(free),
      reserved(reserved),
      allocated(allocated),
      capacity(capacity) {}

Allocator::Allocator(Engine& engine, DeviceMemory& memory, int device, bool poison)
    : engine_(engine), memory_(memory), device_(device), poison_(poison) {}

// Blocks and segments.

// First fit in the device's addresses.
std::optional<Address> Allocator::reserve(std::uint64_t bytes) {
  if (bytes > memory_.capacity() - reserved_) return std::nullopt;
  Address at = memory_.begin();
  for (const auto& [begin, length] : segments_) {
    if (begin - at >= bytes) break;
    at = begin + length;
  }
  if (bytes > memory_.end() - at) return std::nullopt;
  segments_[at] = bytes;
  reserved_ += bytes;
  engine_.charge(engine_.profile().allocate_device);
  return at;
}

Allocator::Block* Allocator::new_segment(std::uint64_t bytes, Stream stream, bool small) {
  std::uint64_t length = small                     ? kSmallSegment
                         : bytes < kOwnSegmentFrom ? kLargeSegment
                                                   : round_up(bytes, 2 * kMiB);
  auto begin = reserve(length);
  if (!begin && !small &&
      length > round_up(bytes, 2 * kMiB)) {  // near the end of memory: just enough
    length = round_up(bytes, 2 * kMiB);
    begin = reserve(length);
  }
  if (!begin) return nullptr;
  auto block = std::make_unique<Block>();
  block->begin = *begin;
  block->bytes = length;
  block->stream = stream;
  block->small = small;
  if (released_behind_ && !released_behind_->executed) block->behind.push_back(released_behind_);
  ++statistics_.device_allocs;
  statistics_.segment.increase(small, 1);
  statistics_.reserved_bytes.increase(small, static_cast<std::int64_t>(length));
  return (blocks_[*begin] = std::move(block)).get();
}

Allocator::Block* Allocator::take(std::uint64_t bytes, Stream stream, bool small) {
  Pool& pool = pools_[small];
  Block wanted;
  wanted.stream = stream;
  wanted.bytes = bytes;
  Block* block = nullptr;
  if (const auto best = pool.lower_bound(&wanted);
      best != pool.end() && (*best)->stream == stream) {
    block = *best;
    pool.erase(best);
    if (block->split()) {
      statistics_.inactive_split.decrease(small, 1);
      statistics_.inactive_split_bytes.decrease(small, static_cast<std::int64_t>(block->bytes));
    }
  } else {
    block = new_segment(bytes, stream, small);
    if (block == nullptr) return nullptr;
  }
  const std::uint64_t rest = block->bytes - bytes;
  if (small ? rest >= kRounding : rest > kMiB) {
    auto right = std::make_unique<Block>();
    right->begin = block->begin + bytes;
    right->bytes = rest;
    right->stream = stream;
    right->small = small;
    right->before = block;
    right->next = block->next;
    right->behind = block->behind;
    if (right->next != nullptr) right->next->before = right.get();
    block->next = right.get();
    block->bytes = bytes;
    statistics_.inactive_split.increase(small, 1);
    statistics_.inactive_split_bytes.increase(small, static_cast<std::int64_t>(rest));
    pool.insert(right.get());
    const Address begin = right->begin;
    blocks_[begin] = std::move(right);
  }
  return block;
}

// Merges a free neighbour into the block, which is in no pool.
void Allocator::absorb(Block& block, Block* neighbour) {
  if (neighbour == nullptr || neighbour->used || neighbour->pending > 0) return;
  pools_[block.small].erase(neighbour);
  statistics_.inactive_split.decrease(block.small, 1);
  statistics_.inactive_split_bytes.decrease(block.small,
                                            static_cast<std::int64_t>(neighbour->bytes));
  for (auto& task : neighbour->behind) block.behind.push_back(std::move(task));
  drop_executed(block.behind);
  block.bytes += neighbour->bytes;
  if (neighbour == block.next) {
    block.next = neighbour->next;
    if (block.next != nullptr) block.next->before = &block;
    blocks_.erase(neighbour->begin);
    return;
  }
  block.before = neighbour->before;
  if (block.before != nullptr) block.before->next = &block;
  auto own = blocks_.extract(block.begin);
  block.begin = neighbour->begin;
  blocks_[block.begin] = std::move(own.mapped());  // the neighbour goes
}

void Allocator::to_pool(Block& block) {
  statistics_.active.decrease(block.small, 1);
  statistics_.active_bytes.decrease(block.small, static_cast<std::int64_t>(block.bytes));
  block.used = false;
  absorb(block, block.before);
  absorb(block, block.next);
  if (block.split()) {
    statistics_.inactive_split.increase(block.small, 1);
    statistics_.inactive_split_bytes.increase(block.small, static_cast<std::int64_t>(block.bytes));
  }
  pools_[block.small].insert(&block);
}

// The program's calls.

Address Allocator::allocate(std::uint64_t requested, Stream stream, Label label) {
  engine_.charge(engine_.profile().allocate);
  engine_.poke();
  if (requested > memory_.capacity()) {
    ++statistics_.ooms;
    throw out_of_memory(requested, /*injected=*/false);
  }
  const std::uint64_t bytes = round_up(std::max<std::uint64_t>(requested, 1), kRounding);
  const bool small = bytes <= kSmallLimit;
  settle_pending();
  Block* block = take(bytes, stream, small);
  if (block == nullptr) {
    ++statistics_.alloc_retries;
    retry_with_empty_cache();
    block = take(bytes, stream, small);
  }
  if (block == nullptr) {
    ++statistics_.ooms;
    throw out_of_memory(requested, /*injected=*/false);
  }
  drop_executed(block->behind);
  if (!block->behind.empty()) engine_.hold_back(stream, block->behind);
  block->behind.clear();
  block->used = true;
  block->requested = requested;
  block->recorded.clear();
  block->number = engine_.next_number();
  const auto size = static_cast<std::int64_t>(block->bytes);
  statistics_.allocation.increase(small, 1);
  statistics_.active.increase(small, 1);
  statistics_.allocated_bytes.increase(small, size);
  statistics_.active_bytes.increase(small, size);
  statistics_.requested_bytes.increase(small, static_cast<std::int64_t>(requested));
  for (auto& detector : engine_.detectors())
    detector->allocated(block->begin, block->begin + block->bytes, stream, block->number,
                        block->number, label);
  return block->begin;
}

void Allocator::record_stream(Address begin, Stream stream) {
  Block& block = used_block(begin, "record_stream");
  if (stream == block.stream || std::ranges::count(block.recorded, stream) > 0) return;
  block.recorded.push_back(stream);
}

void Allocator::free(Address begin, Label label) {
  Block& block = used_block(begin, "free");
  engine_.poke();
  const Sequence number = engine_.next_number();
  statistics_.allocation.decrease(block.small, 1);
  statistics_.allocated_bytes.decrease(block.small, static_cast<std::int64_t>(block.bytes));
  statistics_.requested_bytes.decrease(block.small, static_cast<std::int64_t>(block.requested));
  for (auto& detector : engine_.detectors())
    detector->freed(block.begin, block.begin + block.bytes, block.stream, block.recorded, number,
                    label);
  if (block.recorded.empty()) {
    poison_in_order(block);
    to_pool(block);
    return;
  }
  // A zero-cost mark on each recorded stream; the poison waits for all and holds up nobody else.
  std::vector<Ref<Task>> before;
  if (pending_.size() < engine_.streams()) pending_.resize(engine_.streams());
  for (const Stream stream : block.recorded) {
    before.push_back(engine_.mark(stream));
    pending_[stream.id].emplace_back(before.back(), &block);
    ++block.pending;
  }
  before.push_back(engine_.tail(block.stream));
  std::function<void()> body;
  if (poison_)
    body = [memory = &memory_, at = block.begin, bytes = block.bytes] {
      std::memset(memory->for_tasks(at), kPoison, bytes);
    };
  Ref<Task> done = engine_.detach(block.stream, before, std::move(body));
  if (!done->executed) block.behind.push_back(std::move(done));
  block.used = false;
}

void Allocator::poison_in_order(const Block& block) {
  if (!poison_) return;
  engine_.mark(block.stream, [memory = &memory_, at = block.begin, bytes = block.bytes] {
    std::memset(memory->for_tasks(at), kPoison, bytes);
  });
}

// Frees that wait for other streams. One queue a stream, looked at only up to the first that is not
// done: a scan of all would cost more with each of them.

void Allocator::through(std::size_t stream) {
  Block& block = *pending_[stream].front().second;
  pending_[stream].pop_front();
  if (--block.pending > 0) return;
  block.recorded.clear();
  to_pool(block);
}

void Allocator::settle_pending() {
  for (std::size_t stream = 0; stream < pending_.size(); ++stream)
    while (!pending_[stream].empty() && engine_.finished(pending_[stream].front().first.get()))
      through(stream);
}

void Allocator::wait_pending() {
  for (std::size_t stream = 0; stream < pending_.size(); ++stream)
    while (!pending_[stream].empty()) {
      engine_.jump(pending_[stream].front().first.get());
      through(stream);
    }
}

// The cache.

// A jump of virtual time over all streams, which orders nothing for the program and runs nothing.
void Allocator::retry_with_empty_cache() {
  wait_pending();
  engine_.charge(engine_.profile().release_device + engine_.profile().wait);
  ++statistics_.sync_all_streams;
  for (const auto& tail : engine_.tails(device_)) engine_.jump(tail.get());
  release_unused_segments();
}

bool Allocator::has_unused_segment() const {
  for (const Pool& pool : pools_)
    for (const Block* block : pool)
      if (!block->split()) return true;
  return false;
}

void Allocator::empty_cache(Label label) {
  engine_.charge(engine_.profile().query);
  wait_pending();
  if (!has_unused_segment()) return;
  engine_.charge(engine_.profile().release_device);
  ++statistics_.sync_all_streams;
  engine_.synchronize_device(device_, {.incidental = true, .label = label});
  release_unused_segments();
  engine_.force(released_behind_.get());
}

void Allocator::release_unused_segments() {
  std::vector<Ref<Task>> behind = engine_.tails(-1);
  if (released_behind_) behind.push_back(released_behind_);
  std::vector<std::pair<Address, Address>> released;
  for (Pool& pool : pools_) {
    for (auto place = pool.begin(); place != pool.end();) {
      Block& block = **place;
      if (block.split()) {
        ++place;
        continue;
      }
      place = pool.erase(place);
      const Address end = block.begin + block.bytes;
      for (auto& task : block.behind) behind.push_back(std::move(task));
      for (auto& detector : engine_.detectors()) detector->released(block.begin, end);
      released.emplace_back(block.begin, end);
      segments_.erase(block.begin);
      reserved_ -= block.bytes;
      ++statistics_.device_frees;
      statistics_.segment.decrease(block.small, 1);
      statistics_.reserved_bytes.decrease(block.small, static_cast<std::int64_t>(block.bytes));
      blocks_.erase(block.begin);
    }
  }
  if (released.empty()) return;
  // The pages go when nothing can touch them any more.
  released_behind_ =
      engine_.detach(Stream{}, behind, [memory = &memory_, released = std::move(released)] {
        for (const auto& [begin, end] : released) memory->give_back(begin, end);
      });
}

// Look-ups and errors.

Allocator::Block& Allocator::used_block(Address begin, const char* call) {
  const auto found = blocks_.find(begin);
  if (found == blocks_.end() || !found->second->used)
    throw Error(fmt::format(
        "{} on device {}: the address is not the begin of an allocation; was it freed before?",
        call, device_));
  return *found->second;
}

std::optional<Allocation> Allocator::find(Address at) const {
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return std::nullopt;
  const Block& block = *(--found)->second;
  if (!block.used || at >= block.begin + block.bytes) return std::nullopt;
  return Allocation{block.begin, block.bytes, block.requested, block.stream, block.number};
}

OutOfMemoryError Allocator::out_of_memory(std::uint64_t bytes, bool injected) const {
  return {device_,
          bytes,
          memory_.capacity() - reserved_,
          reserved_,
          static_cast<std::uint64_t>(statistics_.allocated_bytes.all.current),
          memory_.capacity(),
          injected};
}

OutOfMemoryError Allocator::injected_failure(std::uint64_t bytes) {
  ++statistics_.ooms;
  return out_of_memory(bytes, /*injected=*/true);
}

}  // namespace plimsoll::sim
