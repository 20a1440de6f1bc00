#include "plimsoll/text/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plimsoll::text {

namespace {

int byte_at(std::string_view s, size_t i) {  // -1 past the end, so that prefixes sort first
  return i < s.size() ? static_cast<unsigned char>(s[i]) : -1;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.found_as < b.found_as; });
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const auto first = static_cast<unsigned char>(tokens_[i].found_as[0]);
    if (!first_byte_[first]) range_[first].first = i;
    first_byte_[first] = true;
    range_[first].second = i + 1;
  }
  if (!tokens_.empty() && tokens_.front().found_as[0] == tokens_.back().found_as[0]) {
    only_first_ = byte_at(tokens_.front().found_as, 0);
  }
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, size_t from) const {
  for (size_t i = from; i < text.size(); ++i) {
    if (only_first_ >= 0) {
      const void* p = std::memchr(text.data() + i, only_first_, text.size() - i);
      if (!p) break;
      i = static_cast<size_t>(static_cast<const char*>(p) - text.data());
    } else if (!first_byte_[static_cast<unsigned char>(text[i])]) {
      continue;
    }
    if (const AddedToken* token = longest_at(text.substr(i))) {
      return {token, i, i + token->found_as.size()};
    }
  }
  return {};
}

// The sorted tokens are walked like a trie: [low, high) share the first `depth` bytes of the text.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text) const {
  const auto [first, last] = range_[static_cast<unsigned char>(text[0])];
  auto low = tokens_.begin() + first, high = tokens_.begin() + last;
  const AddedToken* longest = nullptr;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->found_as.size() == depth) longest = &*low++;
    if (depth == text.size() || low == high) break;
    const int next = byte_at(text, depth);
    low = std::partition_point(
        low, high, [&](const AddedToken& t) { return byte_at(t.found_as, depth) < next; });
    high = std::partition_point(
        low, high, [&](const AddedToken& t) { return byte_at(t.found_as, depth) == next; });
  }
  return longest;
}

bool AddedTokenMatcher::beside_word(std::string_view text, const Match& m) {
  const UnicodeTable& table = UnicodeTable::instance();
  auto is_word = [&](const char* p) { return table.is_word(decode_utf8(p).code_point); };
  const char* s = text.data();
  return (m.begin > 0 && is_word(previous_character(s + m.begin))) ||
         (m.end < text.size() && is_word(s + m.end));
}

size_t AddedTokenMatcher::left_of_space(std::string_view text, size_t begin, size_t stop) {
  const UnicodeTable& table = UnicodeTable::instance();
  while (begin > stop) {
    const char* p = previous_character(text.data() + begin);
    if (table.char_class(decode_utf8(p).code_point) != CharClass::kSpace) break;
    begin = static_cast<size_t>(p - text.data());
  }
  return std::max(begin, stop);
}

size_t AddedTokenMatcher::right_of_space(std::string_view text, size_t end) {
  const UnicodeTable& table = UnicodeTable::instance();
  while (end < text.size()) {
    const Decoded c = decode_utf8(text.data() + end);
    if (table.char_class(c.code_point) != CharClass::kSpace) break;
    end += c.size;
  }
  return end;
}

}  // namespace plimsoll::text
