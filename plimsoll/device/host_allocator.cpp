#include "plimsoll/device/host_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace plimsoll::device {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMapped = size_t{1} << 20;  // from here on blocks are mapped one by one
constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kLargest = size_t{1} << 50;  // no machine has that; keeps sums from overflowing
constexpr uint8_t kPriority = 1;              // above torch's own, which is 0

std::string mib(size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// A block of `size` (a size class) from the system; nullptr when it has none.
void* system_allocate(size_t size) {
  if (size < kMapped) return std::aligned_alloc(kAlignment, size);
  const size_t slack = size >= kHugePage ? kHugePage : 0;
  void* const mapped =
      mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (slack == 0) return mapped;
  // Huge pages want their alignment; what lies before and after goes back at once.
  char* const begin = static_cast<char*>(mapped);
  const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (skip > 0) munmap(begin, skip);
  if (slack > skip) munmap(begin + skip + size, slack - skip);
  madvise(begin + skip, size, MADV_HUGEPAGE);  // advice: a kernel without them is as right
  return begin + skip;
}

void system_free(void* block, size_t size) {
  if (size < kMapped) {
    std::free(block);
  } else {
    munmap(block, size);
  }
}

class HostAllocator final : public c10::Allocator {
 public:
  // Never destroyed: tensors in static storage are freed after any destructor of ours would run.
  static HostAllocator& instance() {
    static HostAllocator* const it = std::make_unique<HostAllocator>().release();
    return *it;
  }

  c10::DataPtr allocate(size_t bytes) override {
    void* const block = bytes == 0 ? nullptr : take(bytes);
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  HostAllocatorStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_stats() {
    const std::lock_guard lock(mutex_);
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_reserved = stats_.reserved;
    stats_.hits = stats_.misses = stats_.system_allocations = stats_.retries = stats_.ooms = 0;
  }
  int64_t trim(int64_t keep) {
    const std::lock_guard lock(mutex_);
    return trim_locked(keep);
  }
  void set_limit(std::optional<int64_t> bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

 private:
  void* take(size_t bytes) {
    const size_t size = host_block_size(bytes);
    {
      const std::lock_guard lock(mutex_);
      if (void* const block = take_kept(size)) return block;
      ++stats_.misses;
      if (size >= kLargest || !reserve(size)) refuse(bytes, size);
    }
    // Outside the lock: the system may take its time, and others need not wait for it.
    void* block = system_allocate(size);
    const std::lock_guard lock(mutex_);
    if (block == nullptr) {
      ++stats_.retries;
      if (trim_locked(0) > 0) block = system_allocate(size);
    }
    try {
      if (block != nullptr) sizes_.emplace(block, size);
    } catch (...) {
      system_free(block, size);
      block = nullptr;
    }
    if (block == nullptr) {
      stats_.reserved -= static_cast<int64_t>(size);
      refuse(bytes, size);
    }
    ++stats_.system_allocations;
    now_live(size);
    return block;
  }

  void* take_kept(size_t size) {
    const auto found = kept_.find(size);
    if (found == kept_.end() || found->second.empty()) return nullptr;
    // The one that was freed last is the likeliest to be in cache.
    void* const block = found->second.back();
    found->second.pop_back();
    --stats_.kept_blocks;
    kept_bytes_ -= static_cast<int64_t>(size);
    ++stats_.hits;
    now_live(size);
    return block;
  }

  void now_live(size_t size) {
    ++stats_.live_blocks;
    stats_.allocated += static_cast<int64_t>(size);
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  }

  /// Counts `size` into `reserved`, after making room under the limit; false when there is none.
  bool reserve(size_t size) {
    const auto wanted = static_cast<int64_t>(size);
    if (limit_ && stats_.reserved + wanted > *limit_) {
      ++stats_.retries;
      // Live blocks, and those that other threads are getting right now, cannot be taken back.
      const int64_t fixed = stats_.reserved - kept_bytes_;
      trim_locked(std::max<int64_t>(0, *limit_ - fixed - wanted));
      if (stats_.reserved + wanted > *limit_) return false;
    }
    stats_.reserved += wanted;
    return true;
  }

  [[noreturn]] void refuse(size_t bytes, size_t size) {
    ++stats_.ooms;
    const std::string limit = limit_ ? fmt::format(", limit {}", mib(*limit_)) : "";
    throw HostOutOfMemory(
        fmt::format("out of host memory: {} asked for ({} as a block), {} live in {} blocks{}",
                    mib(bytes), mib(size), mib(stats_.allocated), stats_.live_blocks, limit),
        "a smaller train.tokens_per_batch or model needs less; memory.host_limit is the limit");
  }

  int64_t trim_locked(int64_t keep) {
    int64_t released = 0;
    for (auto list = kept_.rbegin(); list != kept_.rend() && kept_bytes_ > keep; ++list) {
      const auto size = static_cast<int64_t>(list->first);
      auto& blocks = list->second;
      while (!blocks.empty() && kept_bytes_ > keep) {
        sizes_.erase(blocks.back());
        system_free(blocks.back(), list->first);
        blocks.pop_back();
        --stats_.kept_blocks;
        kept_bytes_ -= size;
        released += size;
      }
    }
    stats_.reserved -= released;
    return released;
  }

  static void release(void* block) {
    if (block == nullptr) return;
    HostAllocator& self = instance();
    std::unique_lock lock(self.mutex_);
    const auto found = self.sizes_.find(block);
    if (found == self.sizes_.end()) {
      // Not ours: it was made by torch's own allocator before we were installed, and its user
      // frees it through whoever is installed now.
      lock.unlock();
      c10::GetDefaultCPUAllocator()->raw_deleter()(block);
      return;
    }
    const size_t size = found->second;
    --self.stats_.live_blocks;
    self.stats_.allocated -= static_cast<int64_t>(size);
    try {
      self.kept_[size].push_back(block);
      ++self.stats_.kept_blocks;
      self.kept_bytes_ += static_cast<int64_t>(size);
    } catch (...) {  // no memory to remember it by: a deleter must not throw
      self.sizes_.erase(found);
      self.stats_.reserved -= static_cast<int64_t>(size);
      system_free(block, size);
    }
  }

  std::mutex mutex_;
  std::unordered_map<void*, size_t> sizes_;    // every block that is held, live or kept
  std::map<size_t, std::vector<void*>> kept_;  // by size class
  int64_t kept_bytes_ = 0;
  std::optional<int64_t> limit_;
  HostAllocatorStats stats_;
};

}  // namespace

size_t host_block_size(size_t bytes) {
  if (bytes >= kLargest) return kLargest;
  // Eight classes between powers of two: less than an eighth is lost.
  const size_t step = std::max(kAlignment, std::bit_floor(std::max<size_t>(bytes, 1)) / 8);
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

c10::Allocator* host_allocator() {
  return &HostAllocator::instance();
}

void install_host_allocator() {
  c10::GetDefaultCPUAllocator();  // made before us, so that it can free what is its own
  c10::SetCPUAllocator(host_allocator(), kPriority);
}

void uninstall_host_allocator() {
  if (host_allocator_installed()) c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), kPriority);
}

bool host_allocator_installed() {
  return c10::GetCPUAllocator() == host_allocator();
}

HostAllocatorStats host_allocator_stats() {
  return HostAllocator::instance().stats();
}
void reset_host_allocator_stats() {
  HostAllocator::instance().reset_stats();
}

int64_t trim_host_allocator(int64_t keep) {
  return HostAllocator::instance().trim(std::max<int64_t>(keep, 0));
}

void set_host_allocator_limit(std::optional<int64_t> bytes) {
  if (bytes && *bytes < 0)
    throw Error(fmt::format("host allocator: a limit of {} bytes is below zero", *bytes));
  HostAllocator::instance().set_limit(bytes);
}

}  // namespace plimsoll::device
