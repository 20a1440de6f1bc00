#include "plimsoll/data/corpus.h"

#include <cmath>
#include <set>

#include "tests/data/make_store.h"
#include "tests/expect_error.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using testing::byte_tokenizer;
using ::testing::HasSubstr;
using testing::make_store;

std::vector<std::int64_t> numbers(const DocumentSet& set) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < set.size(); ++i) all.push_back(set.number(i));
  return all;
}

TEST(DocumentSet, SplitIsAPartitionInOrder) {
  const TempDir dir;
  const auto store = make_store(dir, std::vector<std::int64_t>(2000, 3));
  for (const double fraction : {1e-9, 0.01, 0.3, 0.999999}) {
    const auto [kept, held] = DocumentSet::split(store, fraction, 7);
    const std::vector<std::int64_t> a = numbers(kept);
    const std::vector<std::int64_t> b = numbers(held);
    EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
    EXPECT_TRUE(std::is_sorted(b.begin(), b.end()));
    std::set<std::int64_t> both(a.begin(), a.end());
    both.insert(b.begin(), b.end());
    EXPECT_EQ(both.size(), 2000U);
    EXPECT_EQ(a.size() + b.size(), 2000U);
    EXPECT_FALSE(a.empty());
    EXPECT_FALSE(b.empty());
    EXPECT_NEAR(static_cast<double>(held.size()), 2000 * fraction, 100);
    EXPECT_EQ(kept.tokens() + held.tokens(), 6000);
    EXPECT_EQ(held.tokens(), held.size() * 3);
    EXPECT_NE(kept.fingerprint(), held.fingerprint());
  }
}

TEST(DocumentSet, SplitFollowsTheSeed) {
  const TempDir dir;
  const auto store = make_store(dir, std::vector<std::int64_t>(200, 3));
  const auto first = DocumentSet::split(store, 0.2, 1).second;
  EXPECT_EQ(numbers(first), numbers(DocumentSet::split(store, 0.2, 1).second));
  EXPECT_EQ(first.fingerprint(), DocumentSet::split(store, 0.2, 1).second.fingerprint());
  EXPECT_NE(numbers(first), numbers(DocumentSet::split(store, 0.2, 2).second));
  EXPECT_NE(first.fingerprint(), DocumentSet::split(store, 0.2, 2).second.fingerprint());
}

TEST(DocumentSet, OneDocumentCannotBeSplit) {
  const TempDir dir;
  const auto store = make_store(dir, {5});
  EXPECT_THAT(error_of([&] { DocumentSet::split(store, 0.5, 1); }), HasSubstr("only 1 document"));
  EXPECT_EQ(DocumentSet().size(), 0);
  EXPECT_EQ(DocumentSet().tokens(), 0);
  EXPECT_EQ(DocumentSet(store).tokens(), 5);
}

TEST(Entropy, IsThatOfTheTokenFrequencies) {
  const TempDir dir;
  DataConfig config;
  config.cache_dir = (dir / "cache").string();
  config.files = {dir.write("a.txt", "aabc")};
  config.add_bos = config.add_eos = false;
  const Corpus corpus = open_corpus(config, byte_tokenizer(), 0);
  EXPECT_NEAR(unigram_entropy(corpus.train), 1.5 * std::log(2.0), 1e-12);
  EXPECT_EQ(corpus.validation.size(), 0);
  // 4 tokens and one more of each of 258: a 3/262, b and c 2/262.
  EXPECT_NEAR(unigram_cross_entropy(corpus.train, corpus.train),
              0.5 * std::log(262.0 / 3) + 0.5 * std::log(262.0 / 2), 1e-12);
}

TEST(OpenCorpus, HoldsOutDocumentsOrOpensFiles) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "paragraph " + std::to_string(i) + "\n\n";
  DataConfig config;
  config.cache_dir = (dir / "cache").string();
  config.files = {dir.write("a.txt", text)};
  config.text_documents = "blank_lines";
  config.validation_fraction = 0.2;
  const Corpus split = open_corpus(config, byte_tokenizer(), 3);
  EXPECT_EQ(split.train.size() + split.validation.size(), 100);
  EXPECT_NEAR(static_cast<double>(split.validation.size()), 20, 15);

  config.validation_fraction = 0;
  config.validation_files = {dir.write("v.txt", "held\n\nout\n")};
  const Corpus files = open_corpus(config, byte_tokenizer(), 3);
  EXPECT_EQ(files.train.size(), 100);
  EXPECT_EQ(files.validation.size(), 2);

  config.validation_files = {(dir / "none.txt").string()};
  EXPECT_THAT(error_of([&] { open_corpus(config, byte_tokenizer(), 3); }),
              HasSubstr("data.validation_files"));
  config.text_field = "";
  EXPECT_THAT(error_of([&] { open_corpus(config, byte_tokenizer(), 3); }), HasSubstr("text_field"));
}

}  // namespace
}  // namespace plimsoll::data
