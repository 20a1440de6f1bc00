#include "plimsoll/data/batch_stream.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "plimsoll/data/permutation.h"
#include "tests/data/make_store.h"
#include "tests/expect_error.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kDocumentStride;
using testing::make_store;
using testing::token_of;

std::vector<Batch> take(BatchStream& stream, std::int64_t rows) {
  std::vector<Batch> all;
  Batch batch;
  while (std::ssize(all) < rows && stream.next(batch)) all.push_back(batch);
  return all;
}

bool same(const Batch& a, const Batch& b) {
  return a.tokens == b.tokens && a.targets == b.targets && a.positions == b.positions &&
         a.documents == b.documents;
}

/// What must hold of every row.
void check_row(const Batch& batch, const StreamConfig& config) {
  const std::size_t size = static_cast<std::size_t>(config.tokens_per_batch);
  ASSERT_EQ(batch.tokens.size(), size);
  ASSERT_EQ(batch.targets.size(), size);
  ASSERT_EQ(batch.positions.size(), size);
  ASSERT_GE(batch.documents.size(), 2U);
  EXPECT_EQ(batch.documents.front(), 0);
  EXPECT_EQ(batch.documents.back(), config.tokens_per_batch);
  for (std::size_t s = 0; s + 1 < batch.documents.size(); ++s) {
    ASSERT_LT(batch.documents[s], batch.documents[s + 1]);
    for (std::int32_t i = batch.documents[s]; i < batch.documents[s + 1]; ++i) {
      ASSERT_EQ(batch.positions[static_cast<std::size_t>(i)], i - batch.documents[s]);
      ASSERT_LT(batch.positions[static_cast<std::size_t>(i)], config.max_context);
    }
  }
}

StreamConfig plain(std::int64_t tokens, std::int64_t context) {
  return {.tokens_per_batch = tokens, .max_context = context, .shuffle = false};
}

TEST(Concat, CutsAndRestartsAsWritten) {
  const TempDir dir;
  // Inputs: 3 of document 0, 9 of document 1, 1 of document 2.
  const auto store = make_store(dir, {4, 10, 2});
  StreamConfig config = plain(5, 4);
  config.repeat = false;
  BatchStream stream(DocumentSet(store), config);
  const std::vector<Batch> rows = take(stream, 10);
  ASSERT_EQ(rows.size(), 2U) << "only whole rows";
  const auto t = [](std::int64_t d, std::int64_t j) { return token_of(d, j); };
  EXPECT_THAT(rows[0].tokens, ElementsAre(t(0, 0), t(0, 1), t(0, 2), t(1, 0), t(1, 1)));
  EXPECT_THAT(rows[0].targets, ElementsAre(t(0, 1), t(0, 2), t(0, 3), t(1, 1), t(1, 2)));
  EXPECT_THAT(rows[0].positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(rows[0].documents, ElementsAre(0, 3, 5));
  // Goes on at 2 of the document, which is position 0 of the row; at 4 a new context begins.
  EXPECT_THAT(rows[1].tokens, ElementsAre(t(1, 2), t(1, 3), t(1, 4), t(1, 5), t(1, 6)));
  EXPECT_THAT(rows[1].positions, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(rows[1].documents, ElementsAre(0, 2, 5));
}

TEST(Concat, PadsTheLastRowWhenAsked) {
  const TempDir dir;
  const auto store = make_store(dir, {4, 4});
  StreamConfig config = plain(4, 8);
  config.repeat = false;
  config.pad_last = true;
  config.pad_id = 9;
  BatchStream stream(DocumentSet(store), config);
  const std::vector<Batch> rows = take(stream, 10);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows[1].tokens, ElementsAre(token_of(1, 1), token_of(1, 2), 9, 9));
  EXPECT_THAT(rows[1].targets, ElementsAre(token_of(1, 2), token_of(1, 3), kNoLoss, kNoLoss));
  EXPECT_THAT(rows[1].positions, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(rows[1].documents, ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(rows[1].valid_tokens(), 2);
  EXPECT_EQ(stream.state().rows, 2);
  Batch batch;
  EXPECT_FALSE(stream.next(batch));
  EXPECT_TRUE(batch.tokens.empty());
}

/// The rules of the reference, done the slow way over one rank's whole flow of tokens.
std::vector<Batch> slow_concat(const DocumentSet& set, const StreamConfig& config,
                               std::int64_t rows) {
  const std::int64_t share = set.size() / config.world;
  const std::int64_t longer = set.size() % config.world;
  const std::int64_t begin = config.rank * share + std::min(config.rank, longer);
  const std::int64_t count = share + (config.rank < longer ? 1 : 0);
  std::vector<std::int32_t> tokens, targets, positions;
  for (std::int64_t epoch = 0; std::ssize(tokens) < rows * config.tokens_per_batch; ++epoch) {
    const Permutation order(set.size(), config.seed + static_cast<std::uint64_t>(epoch));
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const std::int64_t document = config.shuffle ? order(i) : i;
      std::vector<std::int32_t> ids(static_cast<std::size_t>(set.length(document)));
      set.copy(document, 0, set.length(document), ids.data());
      for (std::size_t j = 0; j + 1 < ids.size(); ++j) {
        tokens.push_back(ids[j]);
        targets.push_back(ids[j + 1]);
        positions.push_back(
            static_cast<std::int32_t>(static_cast<std::int64_t>(j) % config.max_context));
      }
    }
  }
  std::vector<Batch> all;
  for (std::int64_t row = 0; row < rows; ++row) {
    Batch batch;
    for (std::int64_t i = 0; i < config.tokens_per_batch; ++i) {
      const auto at = static_cast<std::size_t>(row * config.tokens_per_batch + i);
      if (i == 0 || positions[at] == 0) batch.documents.push_back(static_cast<std::int32_t>(i));
      batch.tokens.push_back(tokens[at]);
      batch.targets.push_back(targets[at]);
      batch.positions.push_back(static_cast<std::int32_t>(i) - batch.documents.back());
    }
    batch.documents.push_back(static_cast<std::int32_t>(config.tokens_per_batch));
    all.push_back(std::move(batch));
  }
  return all;
}

std::vector<std::int64_t> random_lengths(std::mt19937& random, std::int64_t most_documents,
                                         std::int64_t longest) {
  std::vector<std::int64_t> lengths(1 + random() % static_cast<std::uint32_t>(most_documents));
  for (std::int64_t& length : lengths) {
    length = 2 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(longest));
  }
  return lengths;
}

TEST(Concat, EqualsTheRulesDoneTheSlowWay) {
  std::mt19937 random(11);
  const TempDir dir;
  DocumentSet set;
  for (int trial = 0; trial < 150; ++trial) {
    if (trial % 10 == 0) set = DocumentSet(make_store(dir, random_lengths(random, 12, 40)));
    StreamConfig config = plain(1 + random() % 50, 1 + random() % 20);
    config.shuffle = random() % 2 == 0;
    config.seed = random();
    config.world =
        1 + random() % std::min<std::uint32_t>(4, static_cast<std::uint32_t>(set.size()));
    for (config.rank = 0; config.rank < config.world; ++config.rank) {
      BatchStream stream(set, config);
      const std::vector<Batch> expected = slow_concat(set, config, 15);
      const std::vector<Batch> got = take(stream, 15);
      ASSERT_EQ(got.size(), 15U);
      for (std::size_t i = 0; i < got.size(); ++i) {
        check_row(got[i], config);
        ASSERT_TRUE(same(got[i], expected[i])) << "trial " << trial << " row " << i;
      }
    }
  }
}

TEST(FirstFit, FillsTheFirstRowWithRoom) {
  const TempDir dir;
  // Inputs: 3, 3, 1, 2, 2, 9 (too long), 1.
  const auto store = make_store(dir, {4, 4, 2, 3, 3, 10, 2});
  StreamConfig config = plain(4, 4);
  config.packing = Packing::kFirstFit;
  config.repeat = false;
  config.pad_id = 5;
  BatchStream stream(DocumentSet(store), config);
  const std::vector<Batch> rows = take(stream, 10);
  // 0+2 fills a row, 3+4 fills one, then 6 joins 1.
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_THAT(rows[0].tokens,
              ElementsAre(token_of(0, 0), token_of(0, 1), token_of(0, 2), token_of(2, 0)));
  EXPECT_THAT(rows[0].documents, ElementsAre(0, 3, 4));
  EXPECT_THAT(rows[1].tokens,
              ElementsAre(token_of(3, 0), token_of(3, 1), token_of(4, 0), token_of(4, 1)));
  EXPECT_THAT(rows[2].tokens,
              ElementsAre(token_of(1, 0), token_of(1, 1), token_of(1, 2), token_of(6, 0)));
  EXPECT_EQ(stream.state().dropped_long, 1);
}

TEST(FirstFit, GivesOutTheFullestOfEightAndPadsWithSegmentsOfOne) {
  const TempDir dir;
  // Nine documents of which no two share a row of 10; the third is the longest.
  const auto store = make_store(dir, {7, 7, 9, 7, 7, 7, 7, 7, 7});
  StreamConfig config = plain(10, 10);
  config.packing = Packing::kFirstFit;
  config.repeat = false;
  BatchStream stream(DocumentSet(store), config);
  const std::vector<Batch> rows = take(stream, 20);
  ASSERT_EQ(rows.size(), 9U);
  EXPECT_EQ(rows[0].tokens[0], token_of(2, 0));
  EXPECT_THAT(rows[0].documents, ElementsAre(0, 8, 9, 10));
  EXPECT_EQ(rows[0].targets[8], kNoLoss);
  EXPECT_EQ(rows[0].positions[9], 0);
  EXPECT_EQ(rows[0].valid_tokens(), 8);
  EXPECT_EQ(rows[1].tokens[0], token_of(0, 0));
}

TEST(FirstFit, KeepsEveryDocumentThatFitsWholeAndOnce) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const TempDir dir;
    const auto lengths = random_lengths(random, 60, 30);
    const DocumentSet set(make_store(dir, lengths));
    StreamConfig config = plain(4 + random() % 60, 4 + random() % 60);
    config.packing = Packing::kFirstFit;
    config.repeat = false;
    config.shuffle = true;
    config.seed = random();
    const std::int64_t longest = std::min(config.tokens_per_batch, config.max_context);
    std::int64_t fit = 0;
    for (const std::int64_t length : lengths) fit += length - 1 <= longest ? 1 : 0;
    if (fit == 0) continue;
    BatchStream stream(set, config);
    std::map<std::int64_t, int> seen;
    for (const Batch& batch : take(stream, 1 << 20)) {
      check_row(batch, config);
      for (std::size_t s = 0; s + 1 < batch.documents.size(); ++s) {
        const auto first = static_cast<std::size_t>(batch.documents[s]);
        const auto size = static_cast<std::size_t>(batch.documents[s + 1]) - first;
        if (batch.targets[first] == kNoLoss) {
          EXPECT_EQ(size, 1U);
          continue;
        }
        const std::int64_t document = batch.tokens[first] / kDocumentStride;
        ++seen[document];
        ASSERT_EQ(static_cast<std::int64_t>(size), set.length(document) - 1);
        for (std::size_t j = 0; j < size; ++j) {
          ASSERT_EQ(batch.tokens[first + j], token_of(document, static_cast<std::int64_t>(j)));
          ASSERT_EQ(batch.targets[first + j], token_of(document, static_cast<std::int64_t>(j) + 1));
        }
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), fit);
    for (const auto& [document, count] : seen) EXPECT_EQ(count, 1) << document;
    EXPECT_EQ(stream.state().dropped_long, std::ssize(lengths) - fit);
  }
}

TEST(FirstFit, NothingThatFitsIsAnErrorNotAnEndlessSearch) {
  const TempDir dir;
  const DocumentSet set(make_store(dir, {20, 20, 5}));
  StreamConfig config = plain(8, 8);
  config.packing = Packing::kFirstFit;
  config.world = 3;
  config.rank = 0;
  EXPECT_THAT(error_of([&] { BatchStream(set, config); }),
              HasSubstr("none of 1 documents fits in 8 tokens"));
  // Shuffled, the rank gets the short document in some epochs.
  config.shuffle = true;
  BatchStream stream(set, config);
  EXPECT_EQ(take(stream, 3).size(), 3U);
  EXPECT_GT(stream.state().epoch, 3);
}

TEST(Sharding, RanksShareAnEpochWithoutOverlap) {
  const TempDir dir;
  const DocumentSet set(make_store(dir, std::vector<std::int64_t>(23, 2)));
  for (const std::int64_t world : {1, 2, 5, 22, 23}) {
    for (const bool shuffle : {false, true}) {
      std::vector<std::int32_t> seen;
      std::int64_t previous = INT64_MAX;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        StreamConfig config = plain(1, 4);
        config.shuffle = shuffle;
        config.rank = rank;
        config.world = world;
        BatchStream stream(set, config);
        EXPECT_LE(stream.slice_size(), previous) << "the low ranks have the longer slices";
        previous = stream.slice_size();
        EXPECT_GE(stream.slice_size(), 23 / world);
        EXPECT_LE(stream.slice_size(), (23 + world - 1) / world);
        for (const Batch& batch : take(stream, stream.slice_size())) {
          seen.push_back(batch.tokens[0] / kDocumentStride);
        }
      }
      if (!shuffle) {
        EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end())) << "contiguous slices";
      }
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(seen.size(), 23U);
      for (std::int32_t i = 0; i < 23; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST(Shuffle, GivesAnotherOrderEachEpochAndTheSameForASeed) {
  const TempDir dir;
  const DocumentSet set(make_store(dir, std::vector<std::int64_t>(50, 2)));
  StreamConfig config = plain(50, 4);
  config.shuffle = true;
  config.seed = 9;
  BatchStream stream(set, config);
  const std::vector<Batch> rows = take(stream, 3);
  EXPECT_FALSE(same(rows[0], rows[1]));
  EXPECT_FALSE(same(rows[1], rows[2]));
  BatchStream again(set, config);
  EXPECT_TRUE(same(take(again, 1)[0], rows[0]));
  config.seed = 10;  // seed + epoch
  BatchStream next(set, config);
  EXPECT_TRUE(same(take(next, 1)[0], rows[1]));
}

TEST(Resume, ContinuesWithTheVeryRowsFromAnyState) {
  std::mt19937 random(3);
  int first_fits = 0;
  const TempDir dir;
  DocumentSet set;
  for (int trial = 0; trial < 200; ++trial) {
    if (trial % 10 == 0) set = DocumentSet(make_store(dir, random_lengths(random, 40, 30)));
    StreamConfig config = plain(1 + random() % 60, 1 + random() % 40);
    config.packing = random() % 2 == 0 ? Packing::kConcat : Packing::kFirstFit;
    config.shuffle = random() % 4 != 0;
    config.seed = random();
    config.world =
        1 + random() % std::min<std::uint32_t>(3, static_cast<std::uint32_t>(set.size()));
    config.rank = random() % config.world;
    config.repeat = config.world > 1 || random() % 2 == 0;
    config.pad_last = random() % 2 == 0;
    std::unique_ptr<BatchStream> stream;
    try {
      stream = std::make_unique<BatchStream>(set, config);
    } catch (const Error&) {
      ASSERT_EQ(config.packing, Packing::kFirstFit);
      continue;
    }
    first_fits += config.packing == Packing::kFirstFit ? 1 : 0;
    constexpr std::int64_t kRows = 25;
    std::vector<StreamState> states = {stream->state()};
    std::vector<Batch> rows;
    Batch batch;
    while (std::ssize(rows) < kRows && stream->next(batch)) {
      rows.push_back(batch);
      states.push_back(stream->state());
    }
    for (std::size_t from = 0; from < states.size(); ++from) {
      BatchStream resumed(set, config);
      resumed.restore(stream_state_from_json(nlohmann::json::parse(to_json(states[from]).dump())));
      for (std::size_t i = from; i < rows.size(); ++i) {
        ASSERT_TRUE(resumed.next(batch));
        ASSERT_TRUE(same(batch, rows[i])) << "trial " << trial << " from " << from << " row " << i;
        ASSERT_EQ(resumed.state(), states[i + 1]);
      }
      if (std::ssize(rows) < kRows) {
        ASSERT_FALSE(resumed.next(batch));
      }
    }
  }
  EXPECT_GT(first_fits, 40);
}

TEST(Resume, OtherDataOrSettingsAreRefusedByName) {
  const TempDir dir;
  const DocumentSet set(make_store(dir, {5, 6, 7, 8}));
  const StreamConfig config = plain(4, 4);
  BatchStream stream(set, config);
  take(stream, 2);
  const StreamState good = stream.state();
  const auto refused = [&](auto&& change) {
    StreamState changed = good;
    change(changed);
    return error_of([&] { stream.restore(changed); });
  };
  EXPECT_THAT(refused([](StreamState& s) { s.world = 2; }),
              HasSubstr("the number of data ranks was 2, now it is 1"));
  EXPECT_THAT(refused([](StreamState& s) { s.rank = 3; }),
              HasSubstr("data rank was 3, now it is 0"));
  EXPECT_THAT(refused([](StreamState& s) { s.seed = 8; }), HasSubstr("seed was 8, now it is 0"));
  EXPECT_THAT(refused([](StreamState& s) { s.data = "zzz"; }),
              AllOf(HasSubstr("fingerprint"), HasSubstr("was zzz, now it is " + good.data)));
  EXPECT_THAT(refused([](StreamState& s) { s.shuffle = true; }),
              HasSubstr("data.shuffle was true, now it is false"));
  EXPECT_THAT(refused([](StreamState& s) { s.packing = "first_fit"; }),
              HasSubstr("data.packing was first_fit, now it is concat"));
  EXPECT_THAT(refused([](StreamState& s) { s.tokens_per_batch = 5; }),
              HasSubstr("was 5, now it is 4"));
  EXPECT_THAT(refused([](StreamState& s) { s.max_context = 5; }), HasSubstr("was 5, now it is 4"));
  EXPECT_THAT(refused([](StreamState& s) { s.version = 2; }), HasSubstr("was 2, now it is 1"));
  EXPECT_EQ(stream.state(), good) << "a refused state changes nothing";
}

TEST(Resume, ImpossiblePositionsAreRefused) {
  const TempDir dir;
  const DocumentSet set(make_store(dir, {5, 6, 7, 8}));
  StreamConfig config = plain(4, 4);
  const auto refused = [&](auto&& change) {
    BatchStream stream(set, config);
    StreamState changed = stream.state();
    change(changed);
    return error_of([&] { stream.restore(changed); });
  };
  EXPECT_THAT(refused([](StreamState& s) { s.index = 5; }), HasSubstr("index is 5"));
  EXPECT_THAT(refused([](StreamState& s) { s.index = -1; }), HasSubstr("index is -1"));
  EXPECT_THAT(refused([](StreamState& s) { s.offset = 4; }), HasSubstr("offset is 4"));
  EXPECT_THAT(refused([](StreamState& s) { s.index = 4, s.offset = 1; }), HasSubstr("offset is 1"));
  EXPECT_THAT(refused([](StreamState& s) { s.epoch = -1; }), HasSubstr("epoch"));
  EXPECT_THAT(refused([](StreamState& s) { s.bins = {{0}}; }), HasSubstr("open rows"));
  config.packing = Packing::kFirstFit;
  config.max_context = 20;
  config.tokens_per_batch = 20;
  EXPECT_THAT(refused([](StreamState& s) { s.bins = {{4}}; }),
              HasSubstr("a document of an open row"));
  EXPECT_THAT(refused([](StreamState& s) {
                s.bins = {{0, 1, 2, 3, 3}};
              }),
              HasSubstr("tokens in an open row"));
  EXPECT_THAT(refused([](StreamState& s) { s.bins = {{}}; }), HasSubstr("without documents"));
  EXPECT_THAT(refused([](StreamState& s) { s.bins.assign(9, {0}); }),
              HasSubstr("number of open rows"));
  EXPECT_THAT(refused([](StreamState& s) { s.offset = 1; }), HasSubstr("offset"));
}

TEST(BatchStream, RefusesWhatCannotWork) {
  const TempDir dir;
  const DocumentSet set(make_store(dir, {5, 6}));
  const auto refused = [&](auto&& change) {
    StreamConfig config = plain(4, 4);
    change(config);
    return error_of([&] { BatchStream(set, config); });
  };
  EXPECT_THAT(refused([](StreamConfig& c) { c.world = 3; }),
              HasSubstr("2 documents are too few for 3 data ranks"));
  EXPECT_THAT(refused([](StreamConfig& c) { c.world = 2, c.repeat = false; }),
              HasSubstr("data.repeat = false with 2 data ranks"));
  EXPECT_THAT(refused([](StreamConfig& c) { c.rank = 1; }), HasSubstr("data rank 1"));
  EXPECT_THAT(refused([](StreamConfig& c) { c.rank = -1; }), HasSubstr("data rank -1"));
  EXPECT_THAT(refused([](StreamConfig& c) { c.tokens_per_batch = 0; }),
              HasSubstr("tokens per batch = 0"));
  EXPECT_THAT(refused([](StreamConfig& c) { c.tokens_per_batch = 1LL << 40; }),
              HasSubstr("at most"));
  EXPECT_THAT(refused([](StreamConfig& c) { c.max_context = 0; }),
              HasSubstr("maximal context = 0"));
  EXPECT_THAT(error_of([] { BatchStream(DocumentSet(), plain(4, 4)); }), HasSubstr("no documents"));
  EXPECT_THAT(error_of([] { parse_packing("x"); }), HasSubstr("concat, first_fit"));
  EXPECT_EQ(parse_packing(name(Packing::kFirstFit)), Packing::kFirstFit);
}

}  // namespace
}  // namespace plimsoll::data
