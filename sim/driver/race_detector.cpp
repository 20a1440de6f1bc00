#include "sim/driver/race_detector.h"

#include <algorithm>

namespace plimsoll::sim {

RaceDetector::Entries& RaceDetector::Entries::operator=(const Entries& other) {
  if (this == &other) return *this;
  if (other.size_ > capacity_) {
    more_ = std::make_unique<Entry[]>(other.size_);
    capacity_ = other.size_;
  }
  std::copy_n(other.begin(), other.size_, begin());
  size_ = other.size_;
  return *this;
}

void RaceDetector::Entries::push_back(const Entry& entry) {
  if (size_ == capacity_) {
    auto larger = std::make_unique<Entry[]>(2 * std::size_t{capacity_});
    std::copy_n(begin(), size_, larger.get());
    more_ = std::move(larger);
    capacity_ *= 2;
  }
  begin()[size_++] = entry;
}

bool RaceDetector::Entries::operator==(const Entries& other) const noexcept {
  return size_ == other.size_ && std::equal(begin(), begin() + size_, other.begin());
}

void RaceDetector::add_stream() {
  streams_.emplace_back();
  host_seen_.push_back(0);
}

// Work that is enqueued later is after all that the host knows; joined when it knows more.
VectorClock& RaceDetector::clock(std::uint32_t stream) {
  if (host_seen_[stream] != host_version_) {
    streams_[stream].join(host_);
    host_seen_[stream] = host_version_;
  }
  return streams_[stream];
}

const VectorClock& RaceDetector::known(Stream stream) {
  return clock(stream.id);
}

void RaceDetector::host_waits(const VectorClock& known) {
  if (host_.join(known)) ++host_version_;
}

// Cells.

std::uint64_t RaceDetector::allocation_at(Address begin) const {
  const auto cell = by_begin_.find(begin);
  return cell == by_begin_.end() ? 0 : cell->second->allocation;
}

bool RaceDetector::guarded(Address at) const noexcept {
  for (const auto& [begin, end] : guarded_)
    if (at >= begin && at < end) return true;
  return false;
}

RaceDetector::Cells::iterator RaceDetector::insert(Cells::iterator hint, Address begin, Cell cell) {
  const auto place = cells_.emplace_hint(hint, begin, std::move(cell));
  by_begin_[begin] = &place->second;
  return place;
}

RaceDetector::Cells::iterator RaceDetector::erase(Cells::iterator cell) {
  by_begin_.erase(cell->first);
  return cells_.erase(cell);
}

// Makes `at` a boundary between cells; the first cell that begins there or later.
RaceDetector::Cells::iterator RaceDetector::cut(Address at) {
  const auto place = cells_.lower_bound(at);
  if (place == cells_.begin() || (place != cells_.end() && place->first == at)) return place;
  Cell& before = std::prev(place)->second;
  if (before.end <= at) return place;
  Cell rest = before;
  before.end = at;
  return insert(place, at, std::move(rest));
}

void RaceDetector::replace(Address begin, Cell cell) {
  if (const auto whole = by_begin_.find(begin);
      whole != by_begin_.end() && whole->second->end == cell.end) {
    *whole->second = std::move(cell);
    return;
  }
  released(begin, cell.end);
  insert(cells_.lower_bound(begin), begin, std::move(cell));
}

void RaceDetector::released(Address begin, Address end) {
  cut(end);
  for (auto place = cut(begin); place != cells_.end() && place->first < end;) place = erase(place);
}

// Races.

void RaceDetector::found(const Entry& first, const Entry& second, Address begin, Address end,
                         const Cell* cell, VectorClock::Step known, bool use_after_free) {
  for (Race& race : current_) {  // the same two operations in another cell
    if (race.first.number != first.number || race.first.kind != first.kind ||
        race.first.write != first.write || race.use_after_free != use_after_free)
      continue;
    if (begin < race.begin) {
      race.offset -= std::min(race.offset, race.begin - begin);
      race.begin = begin;
    }
    race.end = std::max(race.end, end);
    return;
  }
  Race race;
  race.first = {first.number, first.stream, first.label, first.kind, first.write};
  race.second = {second.number, second.stream, second.label, second.kind, second.write};
  race.use_after_free = use_after_free;
  race.begin = begin;
  race.end = end;
  if (cell != nullptr && cell->allocation != 0) {
    race.allocation = cell->allocation;
    race.offset = begin - cell->allocation_begin;
  }
  race.known = known;
  race.needed = first.step;
  current_.push_back(race);
}

void RaceDetector::flush() {
  for (const Race& race : current_) {
    Label hidden_by = 0;
    for (const IncidentalWait& wait : incidental_)
      if (wait.known.get(race.first.stream) >= race.needed) hidden_by = wait.label;
    log_.add(race, hidden_by);
  }
  current_.clear();
}

void RaceDetector::update(Address begin, Cell& cell, const Entry& me, const VectorClock& known) {
  std::uint32_t kept = 0;
  Entry* const entries = cell.entries.begin();
  for (Entry* entry = entries; entry != cell.entries.end(); ++entry) {
    const VectorClock::Step step = known.get(entry->stream);
    const bool ordered = step >= entry->step;
    if (entry->kind == OperationKind::kFree && me.kind != OperationKind::kFree) {
      found(*entry, me, begin, cell.end, &cell, step, /*use_after_free=*/true);
    } else if (!ordered && (me.write || entry->write)) {
      found(*entry, me, begin, cell.end, &cell, step, /*use_after_free=*/false);
    } else if (ordered && (me.write || !entry->write)) {
      continue;  // whatever races with it races with me
    }
    entries[kept++] = *entry;
  }
  cell.entries.truncate(kept);
  if (me.kind != OperationKind::kHost) cell.entries.push_back(me);
}

void RaceDetector::access(Address begin, Address end, const Entry& me, const VectorClock& known) {
  if (begin >= end) return;
  if (const auto whole = by_begin_.find(begin);
      whole != by_begin_.end() && whole->second->end == end && whole->second->allocation != 0) {
    update(begin, *whole->second, me, known);
    return;
  }
  cut(end);
  auto place = cut(begin);
  for (Address at = begin; at < end;) {
    if (place == cells_.end() || place->first > at) {
      const Address next = place == cells_.end() ? end : std::min(end, place->first);
      if (guarded(at)) {
        const Entry never{0, Operation::kHostStream, 0, 0, OperationKind::kNothing, true};
        found(never, me, at, next, nullptr, 0, /*use_after_free=*/true);
      } else if (me.kind != OperationKind::kHost) {
        Cell cell;
        cell.end = next;
        cell.entries.push_back(me);
        insert(place, at, std::move(cell));
      }
      at = next;
      continue;
    }
    Cell& cell = place->second;
    update(at, cell, me, known);
    at = cell.end;
    if (cell.allocation == 0 && cell.entries.size() == 0) {
      place = erase(place);
      continue;
    }
    // Cells that a cut made and that are alike again become one.
    if (place->first > begin) {
      const auto before = std::prev(place);
      if (before->second.end == place->first && before->second.allocation == cell.allocation &&
          before->second.entries == cell.entries) {
        before->second.end = cell.end;
        place = erase(place);
        continue;
      }
    }
    ++place;
  }
}

// Operations.

void RaceDetector::task(Stream stream, std::span<const Access> accesses, Sequence number,
                        Label label) {
  VectorClock& known = clock(stream.id);
  const VectorClock::Step step = known.advance(stream.id);
  for (const Access& bytes : accesses)
    access(bytes.begin, bytes.end,
           {number, stream.id, step, label, OperationKind::kTask, bytes.write}, known);
  flush();
}

void RaceDetector::host(const Access& bytes, Sequence number, Label label) {
  access(bytes.begin, bytes.end,
         {number, Operation::kHostStream, 0, label, OperationKind::kHost, bytes.write}, host_);
  flush();
}

void RaceDetector::allocated(Address begin, Address end, Stream stream, std::uint64_t allocation,
                             Sequence number, Label label) {
  const VectorClock::Step step = clock(stream.id).advance(stream.id);
  if (!exact_) {
    Cell cell{.end = end, .allocation = allocation, .allocation_begin = begin};
    cell.entries.push_back({number, stream.id, step, label, OperationKind::kAllocation, true});
    replace(begin, std::move(cell));
    return;
  }
  // What touched the bytes before stays, the free as an ordinary write.
  cut(end);
  Address at = begin;
  for (auto place = cut(begin); at < end; ++place) {
    const Address next = place == cells_.end() ? end : std::min(end, place->first);
    if (at < next) place = insert(place, at, Cell{.end = next});
    place->second.allocation = allocation;
    place->second.allocation_begin = begin;
    for (Entry& entry : place->second.entries)
      if (entry.kind == OperationKind::kFree) entry.kind = OperationKind::kTask;
    at = place->second.end;
  }
}

void RaceDetector::freed(Address begin, Address end, Stream stream,
                         std::span<const Stream> recorded, Sequence number, Label label) {
  const VectorClock::Step step = clock(stream.id).advance(stream.id);
  VectorClock joined;
  const VectorClock* known = &streams_[stream.id];
  if (!recorded.empty()) {
    joined = *known;
    for (const Stream other : recorded) joined.join(clock(other.id));
    known = &joined;
  }
  const Entry me{number, stream.id, step, label, OperationKind::kFree, true};
  const std::uint64_t allocation = allocation_at(begin);
  access(begin, end, me, *known);
  flush();
  Cell cell{.end = end, .allocation = allocation, .allocation_begin = begin};
  cell.entries.push_back(me);
  replace(begin, std::move(cell));
}

void RaceDetector::host_allocated(Address begin, Address end, std::uint64_t allocation) {
  replace(begin, {.end = end, .allocation = allocation, .allocation_begin = begin});
}

void RaceDetector::host_freed(Address begin, Address end, Sequence number, Label label) {
  const std::uint64_t allocation = allocation_at(begin);
  Cell cell{.end = end, .allocation = allocation, .allocation_begin = begin};
  cell.entries.push_back({number, Operation::kHostStream, 0, label, OperationKind::kFree, true});
  replace(begin, std::move(cell));
}

void RaceDetector::settle(const Access& bytes, const VectorClock& known) {
  cut(bytes.end);
  for (auto place = cut(bytes.begin); place != cells_.end() && place->first < bytes.end;) {
    auto& entries = place->second.entries;
    std::uint32_t kept = 0;
    for (const Entry& entry : entries)
      if (entry.kind == OperationKind::kFree || known.get(entry.stream) < entry.step)
        entries.begin()[kept++] = entry;
    entries.truncate(kept);
    if (kept == 0 && place->second.allocation == 0)
      place = erase(place);
    else
      ++place;
  }
}

void RaceDetector::note_incidental(const VectorClock& known, Label wait) {
  constexpr std::size_t kKept = 64;  // a warning names one of the latest waits that hide it
  if (incidental_.size() < kKept) {
    incidental_.push_back({known, wait});
    return;
  }
  incidental_[next_incidental_++ % kKept] = {known, wait};
}

}  // namespace plimsoll::sim
