#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/driver/race.h"
#include "sim/driver/types.h"
#include "sim/driver/vector_clock.h"

namespace plimsoll::sim {

/// Finds accesses to the same bytes that nothing orders, by vector clocks: each stream, and the
/// host, knows how far it is behind each stream. Whatever races with anything earlier is reported
/// with at least one partner; nothing that is ordered is reported, but for use after free.
///
/// Memory is kept as cells: byte intervals with the accesses that a later one might race with. An
/// access drops those that it covers (a write all that are ordered before it, a read the reads),
/// and allocation and free leave one cell, so the cells stay as many as the live allocations need.
///
/// The host is checked but not stored: whatever is enqueued later is ordered after it.
class RaceDetector {
 public:
  /// With `exact` an allocation orders nothing and is ordered by nothing; with `ignores_incidental`
  /// waits marked so teach the host nothing. Races go to `log`, which must outlive this.
  RaceDetector(bool exact, bool ignores_incidental, RaceLog& log)
      : exact_(exact), ignores_incidental_(ignores_incidental), log_(log) {}

  bool ignores_incidental() const noexcept { return ignores_incidental_; }

  void add_stream();
  /// Bytes here must be allocated when they are used.
  void guard(Address begin, Address end) { guarded_.emplace_back(begin, end); }

  // Operations, in the order of the program.
  void task(Stream stream, std::span<const Access> accesses, Sequence number, Label label);
  void host(const Access& access, Sequence number, Label label);
  void allocated(Address begin, Address end, Stream stream, std::uint64_t allocation,
                 Sequence number, Label label);
  void freed(Address begin, Address end, Stream stream, std::span<const Stream> recorded,
             Sequence number, Label label);
  void host_allocated(Address begin, Address end, std::uint64_t allocation);
  void host_freed(Address begin, Address end, Sequence number, Label label);
  /// The bytes are nobody's any more; what happened to them is forgotten.
  void released(Address begin, Address end);

  // Order.
  /// What is known on `stream`: what an event recorded now carries.
  const VectorClock& known(Stream stream);
  /// `stream` waits for an event that carried `known`.
  void stream_waits(Stream stream, const VectorClock& known) { clock(stream.id).join(known); }
  void host_waits(const VectorClock& known);
  /// An incidental wait: it orders these bytes with the host and nothing else.
  void settle(const Access& bytes, const VectorClock& known);
  /// For the other detector's log: which incidental wait would have ordered `race`.
  void note_incidental(const VectorClock& known, Label wait);

  std::size_t cells() const noexcept { return cells_.size(); }

 private:
  struct Entry {
    Sequence number;
    std::uint32_t stream;
    VectorClock::Step step;
    Label label;
    OperationKind kind;
    bool write;
    bool operator==(const Entry&) const = default;
  };

  // A vector whose first two entries need no memory of their own; most cells have no more.
  class Entries {
   public:
    Entries() = default;
    Entries(Entries&&) noexcept = default;
    Entries& operator=(Entries&&) noexcept = default;
    Entries(const Entries& other) { *this = other; }
    Entries& operator=(const Entries& other);
    ~Entries() = default;

    std::uint32_t size() const noexcept { return size_; }
    Entry* begin() noexcept { return more_ ? more_.get() : few_; }
    Entry* end() noexcept { return begin() + size_; }
    const Entry* begin() const noexcept { return more_ ? more_.get() : few_; }
    void push_back(const Entry& entry);
    void truncate(std::uint32_t size) noexcept { size_ = size; }
    bool operator==(const Entries& other) const noexcept;

   private:
    std::uint32_t size_ = 0, capacity_ = 2;
    Entry few_[2];
    std::unique_ptr<Entry[]> more_;
  };

  struct Cell {
    Address end = 0;
    std::uint64_t allocation = 0;  // 0: none; such a cell goes when its last entry does
    Address allocation_begin = 0;
    Entries entries;
  };
  using Cells = std::map<Address, Cell>;

  struct IncidentalWait {
    VectorClock known;
    Label label;
  };

  VectorClock& clock(std::uint32_t stream);
  Cells::iterator cut(Address at);
  Cells::iterator insert(Cells::iterator hint, Address begin, Cell cell);
  Cells::iterator erase(Cells::iterator cell);
  void replace(Address begin, Cell cell);
  std::uint64_t allocation_at(Address begin) const;
  bool guarded(Address at) const noexcept;
  void access(Address begin, Address end, const Entry& me, const VectorClock& known);
  void update(Address begin, Cell& cell, const Entry& me, const VectorClock& known);
  void found(const Entry& first, const Entry& second, Address begin, Address end, const Cell* cell,
             VectorClock::Step known, bool use_after_free);
  void flush();

  const bool exact_, ignores_incidental_;
  RaceLog& log_;
  Cells cells_;
  std::unordered_map<Address, Cell*> by_begin_;  // most accesses meet whole cells
  std::vector<std::pair<Address, Address>> guarded_;
  std::vector<VectorClock> streams_;
  std::vector<std::uint64_t> host_seen_;  // version of host_ that each stream has joined
  VectorClock host_;
  std::uint64_t host_version_ = 1;
  std::vector<Race> current_;  // of the operation at hand
  std::vector<IncidentalWait> incidental_;
  std::size_t next_incidental_ = 0;
};

}  // namespace plimsoll::sim
