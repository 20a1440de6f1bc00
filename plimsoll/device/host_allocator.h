#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <optional>

#include "plimsoll/base/error.h"

namespace plimsoll::device {

/// The caching allocator for CPU tensors. Freed blocks are kept and handed out again, so that a
/// training step does not pay for fresh pages each time (they cost more than the arithmetic).
///
/// Blocks are aligned to 64 bytes and rounded up by less than an eighth (below 512 bytes: to the
/// next 64). Those of 1 MiB and more are mapped apart, with huge pages from 2 MiB on. A block
/// serves only requests of its own size class. Safe from any thread; lives until the process is
/// gone, so that tensors in static storage may be freed at any time.
struct HostAllocatorStats {
  int64_t allocated = 0;  ///< bytes in live blocks, as rounded
  int64_t reserved = 0;   ///< bytes held from the system: live and kept
  int64_t peak_allocated = 0;
  int64_t peak_reserved = 0;
  int64_t hits = 0;                ///< requests served from what was kept
  int64_t misses = 0;              ///< requests that went to the system
  int64_t system_allocations = 0;  ///< times that the system gave a block
  int64_t retries = 0;             ///< times that kept blocks were released to make room
  int64_t ooms = 0;                ///< requests that failed all the same
  int64_t live_blocks = 0;
  int64_t kept_blocks = 0;
};

/// A request that the limit or the system refused after everything kept had been released.
class HostOutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Makes torch take CPU memory from here from now on. Tensors made before stay valid and free
/// themselves as they would have. Installing twice is the same as once.
void install_host_allocator();

/// Gives torch its own allocator back. Tensors made in between stay valid.
void uninstall_host_allocator();
bool host_allocator_installed();

/// The allocator itself, installed or not. raw_deallocate() frees blocks of ours and of malloc.
c10::Allocator* host_allocator();

HostAllocatorStats host_allocator_stats();

/// Peaks start again from what is held now; hits, misses and the other counters from zero.
void reset_host_allocator_stats();

/// Returns kept blocks to the system, largest first, until at most `keep` bytes are kept.
/// Returns the bytes released.
int64_t trim_host_allocator(int64_t keep = 0);

/// Upper bound of `reserved`, none by default. A request beyond it first releases what is kept,
/// then throws HostOutOfMemory. Live blocks are never taken back. Throws Error when negative.
void set_host_allocator_limit(std::optional<int64_t> bytes);

/// The bytes that a request of `bytes` takes: its size class. Saturates at the largest class.
size_t host_block_size(size_t bytes);

}  // namespace plimsoll::device
