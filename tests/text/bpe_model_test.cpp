#include "plimsoll/text/bpe_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plimsoll/text/word_cache.h"

namespace plimsoll::text {
namespace {

// Bytes are ids 0..255; each merge makes the next id.
BpeModel::Parts parts(const std::vector<std::pair<int32_t, int32_t>>& merges) {
  BpeModel::Parts p;
  for (int b = 0; b < 256; ++b) p.byte_ids[static_cast<size_t>(b)] = b;
  int32_t next = 256;
  for (const auto& [left, right] : merges) p.merges.push_back({left, right, next++});
  return p;
}

std::vector<int32_t> encode(const BpeModel& model, std::string_view word) {
  MergeScratch scratch;
  std::vector<int32_t> ids;
  model.encode(word, scratch, ids);
  return ids;
}

// By the definition: the pair of the lowest rank merges, leftmost first.
std::vector<int32_t> plain_bpe(const BpeModel::Parts& p, std::string_view word) {
  std::vector<int32_t> ids;
  for (const char b : word) ids.push_back(p.byte_ids[static_cast<unsigned char>(b)]);
  for (;;) {
    size_t best = p.merges.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t m = 0; m < best; ++m) {
        if (p.merges[m].left == ids[i] && p.merges[m].right == ids[i + 1]) {
          best = m;
          at = i;
        }
      }
    }
    if (best == p.merges.size()) return ids;
    ids[at] = p.merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BpeModel, EqualsTheDefinitionAtEveryLength) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::pair<int32_t, int32_t>> merges;
    const auto any = [&] {
      const auto made = static_cast<uint32_t>(merges.size());
      const uint32_t n = random() % (3 + made);
      return static_cast<int32_t>(n < 3 ? 'a' + n : 256 + n - 3);
    };
    for (int m = 0; m < 40; ++m) {
      const std::pair pair(any(), any());
      if (std::find(merges.begin(), merges.end(), pair) == merges.end()) merges.push_back(pair);
    }
    const auto p = parts(merges);
    const BpeModel model(p);
    for (size_t n = 0; n < 90; ++n) {
      std::string word;
      for (size_t i = 0; i < n; ++i) word += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(encode(model, word), plain_bpe(p, word)) << word;
    }
  }
}

TEST(BpeModel, OverlappingPairsMergeFromTheLeft) {
  const BpeModel model(parts({{'a', 'a'}, {256, 256}}));
  EXPECT_EQ(encode(model, "aaaaa"), (std::vector<int32_t>{257, 'a'}));
  EXPECT_EQ(encode(model, std::string(31, 'a')),
            (std::vector<int32_t>{257, 257, 257, 257, 257, 257, 257, 256, 'a'}));
}

TEST(BpeModel, TheLastOfTwoEqualPairsCounts) {
  const BpeModel model(parts({{'a', 'b'}, {'b', 'c'}, {'a', 'b'}}));
  EXPECT_EQ(encode(model, "abc"), (std::vector<int32_t>{'a', 257}));
  EXPECT_EQ(encode(model, "ab"), (std::vector<int32_t>{258}));
}

TEST(BpeModel, MissingBytesAreDroppedAndTheirNeighboursMerge) {
  auto p = parts({{'a', 'b'}});
  p.byte_ids['-'] = -1;
  const BpeModel model(p);
  EXPECT_EQ(encode(model, "a-b"), (std::vector<int32_t>{256}));
  EXPECT_EQ(encode(model, "--"), std::vector<int32_t>());
}

TEST(BpeModel, IgnoreMergesTakesWholeWords) {
  auto p = parts({{'a', 'b'}});
  p.ignore_merges = true;
  p.words.add("bcd");
  p.word_ids.push_back(999);
  const BpeModel model(p);
  EXPECT_EQ(encode(model, "bcd"), (std::vector<int32_t>{999}));
  EXPECT_EQ(encode(model, "abcd"), (std::vector<int32_t>{256, 'c', 'd'}));
}

TEST(BpeModel, AMillionBytesWithoutABreak) {
  const BpeModel model(parts({{'a', 'a'}, {256, 256}, {257, 257}}));
  EXPECT_EQ(encode(model, std::string(1 << 20, 'a')).size(), size_t{1} << 17);
}

TEST(WordCache, GivesBackWhatItWasTold) {
  std::mt19937 random(3);
  WordCache cache;
  const auto ids_of = [](const std::string& w) {  // any function of the word
    std::vector<int32_t> ids;
    for (size_t i = 0; i < w.size(); i += 1 + static_cast<unsigned char>(w[0]) % 7) {
      ids.push_back(static_cast<int32_t>(w.size() * 1000 + static_cast<unsigned char>(w[i])));
    }
    return ids;
  };
  size_t hits = 0;
  for (int i = 0; i < 300000; ++i) {  // enough to evict and to empty the arena
    std::string word(1 + random() % (i % 10 ? 20 : 300), '\0');
    for (char& c : word) c = static_cast<char>(i % 3 ? random() % 2 : random());
    std::vector<int32_t> found = {-5};
    if (cache.find(word, found)) {
      ++hits;
      auto expected = ids_of(word);
      expected.insert(expected.begin(), -5);
      ASSERT_EQ(found, expected);
    } else {
      ASSERT_EQ(found.size(), 1u);
      cache.store(word, ids_of(word));
    }
  }
  EXPECT_GT(hits, 10000u);
}

TEST(StringTable, NumbersDistinctStrings) {
  StringTable table;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < 5000; ++i) {
      const auto [index, fresh] = table.add(std::to_string(i));
      ASSERT_EQ(index, i);
      ASSERT_EQ(fresh, round == 0);
    }
  }
  EXPECT_EQ(table[4321], "4321");
  EXPECT_EQ(table.find("77"), 77);
  EXPECT_EQ(table.find("x"), -1);
  EXPECT_EQ(table.find(""), -1);
}

}  // namespace
}  // namespace plimsoll::text
