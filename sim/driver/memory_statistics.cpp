#include "sim/driver/memory_statistics.h"

#include <utility>

namespace plimsoll::sim {
namespace {

constexpr std::pair<const char*, PooledStatistic MemoryStatistics::*> kRows[] = {
    {"allocation", &MemoryStatistics::allocation},
    {"segment", &MemoryStatistics::segment},
    {"active", &MemoryStatistics::active},
    {"inactive_split", &MemoryStatistics::inactive_split},
    {"allocated_bytes", &MemoryStatistics::allocated_bytes},
    {"reserved_bytes", &MemoryStatistics::reserved_bytes},
    {"active_bytes", &MemoryStatistics::active_bytes},
    {"inactive_split_bytes", &MemoryStatistics::inactive_split_bytes},
    {"requested_bytes", &MemoryStatistics::requested_bytes},
};

constexpr std::pair<const char*, Statistic PooledStatistic::*> kPools[] = {
    {"all", &PooledStatistic::all},
    {"small_pool", &PooledStatistic::small_pool},
    {"large_pool", &PooledStatistic::large_pool},
};

void put(std::map<std::string, std::int64_t>& flat, const std::string& key,
         const Statistic& value) {
  flat[key + ".current"] = value.current;
  flat[key + ".peak"] = value.peak;
  flat[key + ".allocated"] = value.allocated;
  flat[key + ".freed"] = value.freed;
}

}  // namespace

void MemoryStatistics::reset_peak() noexcept {
  for (const auto& [name, row] : kRows)
    for (const auto& [pool_name, pool] : kPools) {
      Statistic& value = this->*row.*pool;
      value.peak = value.current;
    }
}

void MemoryStatistics::reset_accumulated() noexcept {
  for (const auto& [name, row] : kRows)
    for (const auto& [pool_name, pool] : kPools) {
      Statistic& value = this->*row.*pool;
      value.allocated = value.freed = 0;
    }
  alloc_retries = ooms = sync_all_streams = device_allocs = device_frees = 0;
}

std::map<std::string, std::int64_t> MemoryStatistics::flat() const {
  std::map<std::string, std::int64_t> flat;
  for (const auto& [name, row] : kRows)
    for (const auto& [pool_name, pool] : kPools)
      put(flat, std::string(name) + "." + pool_name, this->*row.*pool);
  // No block is too large to be split here.
  put(flat, "oversize_allocations", {});
  put(flat, "oversize_segments", {});
  flat["max_split_size"] = -1;
  flat["num_alloc_retries"] = alloc_retries;
  flat["num_ooms"] = ooms;
  flat["num_sync_all_streams"] = sync_all_streams;
  flat["num_device_alloc"] = device_allocs;
  flat["num_device_free"] = device_frees;
  return flat;
}

}  // namespace plimsoll::sim
