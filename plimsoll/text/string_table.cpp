#include "plimsoll/text/string_table.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "plimsoll/base/error.h"

namespace plimsoll::text {

namespace {

constexpr size_t kMaxStrings = size_t{1} << 31;

uint64_t hash_of(std::string_view s) {
  return XXH3_64bits(s.data(), s.size());
}

}  // namespace

StringTable::StringTable() : begin_{0}, slots_(1024, Slot{0, 0}) {}

// The slot that holds `s`, or the empty one where it would go.
size_t StringTable::locate(std::string_view s, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t i = hash & mask;
  while (slots_[i].index_plus_one) {
    if (slots_[i].tag == tag && (*this)[slots_[i].index_plus_one - 1] == s) break;
    i = (i + 1) & mask;
  }
  return i;
}

StringTable::Added StringTable::add(std::string_view s) {
  const uint64_t hash = hash_of(s);
  size_t i = locate(s, hash);
  if (slots_[i].index_plus_one) return {slots_[i].index_plus_one - 1, false};
  if (size() >= kMaxStrings) throw Error(fmt::format("more than {} distinct strings", kMaxStrings));
  if ((size() + 1) * 2 > slots_.size()) {
    grow(slots_.size() * 2);
    i = locate(s, hash);
  }
  const auto index = static_cast<uint32_t>(size());
  arena_.append(s);
  begin_.push_back(arena_.size());
  slots_[i] = {static_cast<uint32_t>(hash >> 32), index + 1};
  return {index, true};
}

int64_t StringTable::find(std::string_view s) const {
  return int64_t{slots_[locate(s, hash_of(s))].index_plus_one} - 1;
}

void StringTable::reserve(size_t strings, size_t bytes) {
  arena_.reserve(bytes);
  begin_.reserve(strings + 1);
  size_t slots = slots_.size();
  while (slots < strings * 2) slots *= 2;
  if (slots > slots_.size()) grow(slots);
}

void StringTable::grow(size_t count) {
  slots_.assign(count, Slot{0, 0});
  const size_t mask = count - 1;
  for (uint32_t index = 0; index < size(); ++index) {
    const uint64_t hash = hash_of((*this)[index]);
    size_t i = hash & mask;
    while (slots_[i].index_plus_one) i = (i + 1) & mask;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), index + 1};
  }
}

}  // namespace plimsoll::text
