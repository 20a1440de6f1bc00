#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace plimsoll::sim {

/// One quantity over time. current = allocated - freed, until the accumulated ones are reset.
struct Statistic {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void increase(std::int64_t amount) noexcept {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void decrease(std::int64_t amount) noexcept {
    current -= amount;
    freed += amount;
  }
};

/// For all memory, the small pool and the large one.
struct PooledStatistic {
  Statistic all, small_pool, large_pool;

  void increase(bool small, std::int64_t amount) noexcept {
    all.increase(amount);
    (small ? small_pool : large_pool).increase(amount);
  }
  void decrease(bool small, std::int64_t amount) noexcept {
    all.decrease(amount);
    (small ? small_pool : large_pool).decrease(amount);
  }
};

/// What a caching allocator tells of itself, as torch.accelerator.memory_stats does.
struct MemoryStatistics {
  PooledStatistic allocation;  ///< blocks that the program holds
  PooledStatistic segment;     ///< pieces asked of the device
  PooledStatistic active;      ///< blocks held, or freed but still used by another stream
  PooledStatistic inactive_split;
  PooledStatistic allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes,
      requested_bytes;
  std::int64_t alloc_retries = 0, ooms = 0, sync_all_streams = 0, device_allocs = 0,
               device_frees = 0;

  void reset_peak() noexcept;
  void reset_accumulated() noexcept;

  /// Flat keys such as "allocated_bytes.all.peak" and "num_ooms", as torch names them.
  std::map<std::string, std::int64_t> flat() const;
};

}  // namespace plimsoll::sim
