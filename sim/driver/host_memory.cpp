#include "sim/driver/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "sim/driver/allocator.h"

namespace plimsoll::sim {
namespace {

constexpr std::uint64_t kSmallest = 4096;
constexpr std::uint64_t kLargest = std::uint64_t{1} << 46;

}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [begin, block] : blocks_) give_back(begin, block.bytes);
}

void HostMemory::give_back(Address begin, std::uint64_t bytes) noexcept {
  munmap(reinterpret_cast<void*>(begin), bytes);
}

bool HostMemory::through(const Block& block) {
  return std::ranges::all_of(
      block.behind, [this](const Ref<Task>& task) { return engine_.finished(task.get()); });
}

Address HostMemory::allocate(std::uint64_t requested) {
  const auto& profile = engine_.profile();
  engine_.poke();
  if (requested > kLargest)
    throw Error(fmt::format("cannot pin {} of host memory",
                            format_bytes(static_cast<std::int64_t>(requested >> 1) * 2)));
  const std::uint64_t bytes = std::bit_ceil(std::max(requested, kSmallest));
  Address begin = 0;
  if (auto& cached = free_[bytes]; !cached.empty() && through(blocks_.at(cached.front()))) {
    begin = cached.front();
    cached.pop_front();
    engine_.charge(profile.allocate);
    Block& block = blocks_.at(begin);
    for (const auto& task : block.behind) engine_.force(task.get());
    block.behind.clear();
  } else {
    engine_.charge(profile.pin +
                   costmodel::duration(static_cast<double>(bytes), profile.pin_bandwidth));
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw Error(fmt::format("cannot pin {} of host memory: {}",
                              format_bytes(static_cast<std::int64_t>(bytes)),
                              std::generic_category().message(errno)));
    begin = reinterpret_cast<Address>(memory);
    blocks_[begin].bytes = bytes;
    reserved_ += bytes;
  }
  Block& block = blocks_.at(begin);
  block.used = true;
  block.requested = requested;
  allocated_ += bytes;
  const Sequence number = engine_.next_number();
  for (auto& detector : engine_.detectors())
    detector->host_allocated(begin, begin + std::max<std::uint64_t>(requested, 1), number);
  return begin;
}

void HostMemory::free(Address begin, Label label) {
  const auto found = blocks_.find(begin);
  if (found == blocks_.end() || !found->second.used)
    throw Error("the address is not the begin of a pinned allocation; was it freed before?");
  Block& block = found->second;
  engine_.poke();
  const Sequence number = engine_.next_number();
  for (auto& detector : engine_.detectors())
    detector->host_freed(begin, begin + std::max<std::uint64_t>(block.requested, 1), number, label);
  std::vector<Ref<Task>> users;
  for (const Stream stream : block.streams)
    if (engine_.tail(stream)) users.push_back(engine_.tail(stream));
  std::function<void()> body;
  if (poison_)
    body = [begin, bytes = block.requested] {
      std::memset(reinterpret_cast<void*>(begin), Allocator::kPoison, bytes);
    };
  if (!users.empty())
    block.behind.push_back(engine_.detach(Stream{users.front()->stream}, users, std::move(body)));
  else if (body)
    body();
  block.used = false;
  block.streams.clear();
  allocated_ -= block.bytes;
  free_[block.bytes].push_back(begin);
}

const HostMemory::Block* HostMemory::find(Address at, Address* begin) const {
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return nullptr;
  --found;
  if (at >= found->first + found->second.bytes) return nullptr;
  *begin = found->first;
  return &found->second;
}

void HostMemory::use(Address at, Stream stream) {
  Address begin = 0;
  const Block* const block = find(at, &begin);
  if (block == nullptr || !block->used || std::ranges::count(block->streams, stream) > 0) return;
  blocks_.at(begin).streams.push_back(stream);
}

bool HostMemory::is_pinned(Address at, std::uint64_t bytes) const {
  Address begin = 0;
  const Block* const block = find(at, &begin);
  return block != nullptr && block->used && bytes <= begin + block->bytes - at;
}

void HostMemory::empty_cache() {
  for (auto& [bytes, cached] : free_)
    std::erase_if(cached, [&, bytes = bytes](Address begin) {
      const Block& block = blocks_.at(begin);
      if (!through(block)) return false;
      for (const auto& task : block.behind) engine_.force(task.get());
      for (auto& detector : engine_.detectors()) detector->released(begin, begin + bytes);
      give_back(begin, bytes);
      reserved_ -= bytes;
      blocks_.erase(begin);
      return true;
    });
}

}  // namespace plimsoll::sim
