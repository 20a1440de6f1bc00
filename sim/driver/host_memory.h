#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <vector>

#include "sim/driver/engine.h"

namespace plimsoll::sim {

/// Pinned host memory with a cache: sizes are rounded to powers of two, and a freed block serves
/// again when the streams that used it are through. That is known in virtual time; since the host
/// may write at once, handing such a block out runs the real work that still uses it.
class HostMemory {
 public:
  HostMemory(Engine& engine, bool poison) : engine_(engine), poison_(poison) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  /// Page-aligned. Throws Error when the system has no room.
  Address allocate(std::uint64_t bytes);
  /// `begin` is what allocate() gave; throws Error for anything else, also when freed twice.
  void free(Address begin, Label label);
  /// The block that holds the byte at `at` is used by `stream`; nothing for other memory. Copies
  /// say so themselves.
  void use(Address at, Stream stream);
  /// Does [begin, begin + bytes) lie in one block that is in use?
  bool is_pinned(Address begin, std::uint64_t bytes) const;
  /// Gives cached blocks that nobody uses back to the system.
  void empty_cache();

  std::uint64_t reserved() const noexcept { return reserved_; }
  std::uint64_t allocated() const noexcept { return allocated_; }

 private:
  struct Block {
    std::uint64_t bytes = 0;      // as rounded
    std::uint64_t requested = 0;  // 0: free
    bool used = false;
    std::vector<Stream> streams;
    std::vector<Ref<Task>> behind;  // of a free block: what must be done before it serves again
  };

  bool through(const Block& block);
  void give_back(Address begin, std::uint64_t bytes) noexcept;
  const Block* find(Address at, Address* begin) const;

  Engine& engine_;
  const bool poison_;
  std::map<Address, Block> blocks_;
  std::map<std::uint64_t, std::deque<Address>> free_;  // by size, the first freed first
  std::uint64_t reserved_ = 0, allocated_ = 0;
};

}  // namespace plimsoll::sim
