#include <algorithm>
#include <limits>
#include <map>

#include "plimsoll/config/config.h"
#include "plimsoll/config/values.h"

namespace plimsoll::config {
namespace {

/// Case and the kind of dash are not what makes a word another one.
std::string fold(std::string_view word) {
  std::string folded(word);
  for (char& c : folded) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return folded;
}

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;
  if (word.empty() || word.size() > kLongest) return {};
  const std::string folded = fold(word);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t d = distance(folded, fold(candidate));
    if (d < best_distance) best = candidate, best_distance = d;
  }
  if (!best.empty() || word.size() < 3) return best;
  for (const std::string& candidate : candidates) {
    if (fold(candidate).starts_with(folded)) return candidate;
  }
  return {};
}

std::vector<Difference> compare(const Fields& before, const Fields& after) {
  const std::vector<Entry> old_entries = flatten(before), new_entries = flatten(after);
  std::map<std::string, const Entry*> in_old, in_new;
  for (const Entry& entry : old_entries) in_old[entry.key] = &entry;
  for (const Entry& entry : new_entries) in_new[entry.key] = &entry;

  std::vector<Difference> differences;
  for (const Entry& entry : new_entries) {
    const auto other = in_old.find(entry.key);
    const auto text = other == in_old.end() ? std::nullopt : other->second->text;
    if (text == entry.text) continue;
    differences.push_back(
        {entry.key, text.value_or(""), entry.text.value_or(""), entry.may_change});
  }
  for (const Entry& entry : old_entries) {
    if (in_new.count(entry.key) || !entry.text) continue;
    differences.push_back({entry.key, *entry.text, "", entry.may_change});
  }
  return differences;
}

}  // namespace plimsoll::config
