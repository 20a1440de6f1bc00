#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "plimsoll/base/error.h"
#include "sim/driver/device_memory.h"
#include "sim/driver/engine.h"
#include "sim/driver/memory_statistics.h"

namespace plimsoll::sim {

/// An allocation that found no room. The device is as before; after something was freed the process
/// can go on.
class OutOfMemoryError : public Error {
 public:
  OutOfMemoryError(int device, std::uint64_t requested, std::uint64_t free, std::uint64_t reserved,
                   std::uint64_t allocated, std::uint64_t capacity, bool injected);

  const std::uint64_t requested, free, reserved, allocated, capacity;
};

/// What an address belongs to.
struct Allocation {
  Address begin = 0;
  std::uint64_t bytes = 0;      ///< as rounded
  std::uint64_t requested = 0;  ///< as asked for
  Stream stream;
  Sequence number = 0;  ///< of the call, which names it in reports
};

/// The caching allocator of one device: sizes are rounded to 512 bytes; up to 1 MiB comes from
/// segments of 2 MiB (the small pool), less than 10 MiB from segments of 20 MiB, more from segments
/// of their own; blocks are split and merged again; a freed block serves its stream at once, or,
/// where record_stream named others, when these are through. What is free is known in virtual time,
/// so every mode gives the same addresses; a block that is handed out early is held back by a
/// hidden dependency of its stream on the real work that still uses it.
class Allocator {
 public:
  static constexpr unsigned char kPoison = 0xFF;  ///< NaN in every float format

  Allocator(Engine& engine, DeviceMemory& memory, int device, bool poison);

  /// At least `bytes` for use in the order of `stream`; 0 bytes take the smallest block. Throws
  /// OutOfMemoryError after emptying the cache did not help.
  Address allocate(std::uint64_t bytes, Stream stream, Label label);
  /// `begin` is what allocate() gave; throws Error for anything else, also when freed twice.
  void free(Address begin, Label label);
  /// Other streams use the block, too: it is not reused before they are through.
  void record_stream(Address begin, Stream stream);
  /// Gives unused segments back to the device. Where there are any that is an incidental wait for
  /// all its streams, named `label`; it throws what such a wait throws.
  void empty_cache(Label label);

  /// The allocation that holds the byte.
  std::optional<Allocation> find(Address at) const;
  const MemoryStatistics& statistics() const noexcept { return statistics_; }
  MemoryStatistics& statistics() noexcept { return statistics_; }
  std::uint64_t reserved() const noexcept { return reserved_; }
  /// An OutOfMemoryError that a fault asks for.
  OutOfMemoryError injected_failure(std::uint64_t bytes);

 private:
  struct Block {
    Address begin = 0;
    std::uint64_t bytes = 0, requested = 0;
    Stream stream;
    bool small = false, used = false;
    std::uint32_t pending = 0;  // streams that are not through with it; such a block is in no pool
    Sequence number = 0;
    Block *before = nullptr, *next = nullptr;  // neighbours in the segment
    std::vector<Stream> recorded;
    std::vector<Ref<Task>> behind;  // real work that must be done before the next use

    bool split() const noexcept { return before != nullptr || next != nullptr; }
  };
  struct BestFit {
    bool operator()(const Block* a, const Block* b) const noexcept {
      if (a->stream != b->stream) return a->stream < b->stream;
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->begin < b->begin;
    }
  };
  using Pool = std::set<Block*, BestFit>;

  Block* take(std::uint64_t bytes, Stream stream, bool small);
  Block* new_segment(std::uint64_t bytes, Stream stream, bool small);
  std::optional<Address> reserve(std::uint64_t bytes);
  void to_pool(Block& block);
  void absorb(Block& block, Block* neighbour);
  void settle_pending();
  void wait_pending();
  void through(std::size_t stream);
  void retry_with_empty_cache();
  bool has_unused_segment() const;
  void release_unused_segments();
  void poison_in_order(const Block& block);
  Block& used_block(Address begin, const char* call);
  OutOfMemoryError out_of_memory(std::uint64_t bytes, bool injected) const;

  Engine& engine_;
  DeviceMemory& memory_;
  const int device_;
  const bool poison_;
  std::map<Address, std::unique_ptr<Block>> blocks_;
  std::map<Address, std::uint64_t> segments_;
  std::array<Pool, 2> pools_;                                      // large, small
  std::vector<std::deque<std::pair<Ref<Task>, Block*>>> pending_;  // by recorded stream
  Ref<Task>
      released_behind_;  // new segments are held back by what the released ones still waited for
  std::uint64_t reserved_ = 0;
  MemoryStatistics statistics_;
};

}  // namespace plimsoll::sim
