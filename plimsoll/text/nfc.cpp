#include "plimsoll/text/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "plimsoll/text/unicode.h"
#include "plimsoll/text/unicode_tables.h"

namespace plimsoll::text {

namespace {

// Hangul syllables are computed, after section 3.12 of the Unicode standard.
constexpr uint32_t kSyllables = 0xAC00, kSyllablesEnd = 0xD7A4;
constexpr uint32_t kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

struct Mark {
  uint32_t code_point;
  uint8_t combining;  // combining class; 0 is a starter
};

class NfcData {
 public:
  static const NfcData& instance() {
    static const NfcData data;
    return data;
  }

  void decompose(uint32_t c, std::vector<Mark>& out) const {
    auto put = [&](uint32_t x) { out.push_back({x, combining(x)}); };
    if (c >= kSyllables && c < kSyllablesEnd) {
      const uint32_t s = c - kSyllables;
      put(kLeads + s / (kVowelCount * kTailCount));
      put(kVowels + s % (kVowelCount * kTailCount) / kTailCount);
      if (s % kTailCount) put(kTails + s % kTailCount);
      return;
    }
    const auto found = decomposition_.find(c);
    if (found == decomposition_.end()) return put(c);
    const uint32_t* entry = found->second;
    for (uint32_t i = 1; i <= (entry[0] & 255); ++i) put(entry[i]);
  }

  // The character that two compose to, or 0.
  uint32_t compose(uint32_t a, uint32_t b) const {
    if (a - kLeads < kLeadCount && b - kVowels < kVowelCount) {
      return kSyllables + ((a - kLeads) * kVowelCount + (b - kVowels)) * kTailCount;
    }
    const bool open_syllable =
        a >= kSyllables && a < kSyllablesEnd && (a - kSyllables) % kTailCount == 0;
    if (open_syllable && b > kTails && b < kTails + kTailCount) return a + (b - kTails);
    const auto found = composition_.find(uint64_t{a} << 32 | b);
    return found == composition_.end() ? 0 : found->second;
  }

 private:
  NfcData() {
    const uint32_t* p = tables::kDecompositions;
    while (p != std::end(tables::kDecompositions)) {
      decomposition_[*p >> 8] = p;
      p += 1 + (*p & 255);
    }
    for (const uint32_t entry : tables::kCombiningClasses) {
      combining_[entry >> 8] = static_cast<uint8_t>(entry & 255);
    }
    for (p = tables::kCompositions; p != std::end(tables::kCompositions); p += 3) {
      composition_[uint64_t{p[0]} << 32 | p[1]] = p[2];
    }
  }

  uint8_t combining(uint32_t c) const {
    const auto found = combining_.find(c);
    return found == combining_.end() ? 0 : found->second;
  }

  std::unordered_map<uint32_t, const uint32_t*> decomposition_;
  std::unordered_map<uint32_t, uint8_t> combining_;
  std::unordered_map<uint64_t, uint32_t> composition_;
};

// Decomposes, orders and composes one stretch between safe characters.
void normalise_stretch(std::string_view text, std::vector<Mark>& marks, std::string& out) {
  const NfcData& data = NfcData::instance();
  marks.clear();
  for (size_t i = 0; i < text.size();) {
    const Decoded c = decode_utf8(text.data() + i);
    data.decompose(c.code_point, marks);
    i += c.size;
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    size_t j = i;
    while (j < marks.size() && marks[j].combining) ++j;
    std::stable_sort(marks.begin() + i, marks.begin() + j,
                     [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    i = j;
  }
  size_t kept = 0;
  Mark* starter = nullptr;
  int last = -1;  // class of the last mark kept after the starter; -1 where there is none
  for (const Mark mark : marks) {
    if (starter && last < static_cast<int>(mark.combining)) {
      if (const uint32_t composed = data.compose(starter->code_point, mark.code_point)) {
        starter->code_point = composed;
        continue;
      }
    }
    marks[kept] = mark;
    if (mark.combining == 0) {
      starter = &marks[kept];
      last = -1;
    } else {
      last = mark.combining;
    }
    ++kept;
  }
  for (size_t i = 0; i < kept; ++i) append_utf8(marks[i].code_point, out);
}

}  // namespace

bool normalise_nfc(std::string_view text, std::string& out) {
  const UnicodeTable& table = UnicodeTable::instance();
  const char *p = text.data(), *end = p + text.size();
  const char* done = p;  // everything before is in `out`
  bool changed = false;
  std::vector<Mark> marks;
  auto unsafe = [&](const char* at, uint32_t& size) {
    const Decoded c = decode_utf8(at);
    size = c.size;
    return table.is_nfc_unsafe(c.code_point);
  };
  while (p < end) {
    uint32_t size;
    // Nothing below U+0300 (first byte 0xCC) is unsafe.
    if (static_cast<unsigned char>(*p) < 0xCC) {
      ++p;
      continue;
    }
    if (!unsafe(p, size)) {
      p += size;
      continue;
    }
    const char* begin = p > done ? previous_character(p) : p;  // the safe one before may compose
    p += size;
    while (p < end && unsafe(p, size)) p += size;
    if (!changed) {
      out.clear();
      out.reserve(text.size() + 16);
      changed = true;
    }
    out.append(done, begin);
    normalise_stretch({begin, static_cast<size_t>(p - begin)}, marks, out);
    done = p;
  }
  if (changed) out.append(done, end);
  return changed;
}

}  // namespace plimsoll::text
