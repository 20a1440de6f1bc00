#include "plimsoll/data/prefetch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "tests/data/make_store.h"
#include "tests/expect_error.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::HasSubstr;
using testing::make_store;

class PrefetcherDepth : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, PrefetcherDepth, ::testing::Values(0, 1, 2, 7));

BatchStream small_stream(const TempDir& dir, bool repeat) {
  return BatchStream(DocumentSet(make_store(dir, std::vector<std::int64_t>(40, 9))),
                     {.tokens_per_batch = 12, .max_context = 8, .seed = 4, .repeat = repeat});
}

TEST_P(PrefetcherDepth, GivesTheRowsAndTheStatesOfTheStream) {
  const TempDir dir;
  BatchStream stream = small_stream(dir, false);
  Prefetcher prefetcher(small_stream(dir, false), GetParam());
  Batch expected;
  Batch got;
  EXPECT_EQ(prefetcher.state(), stream.state());
  while (stream.next(expected)) {
    ASSERT_TRUE(prefetcher.next(got));
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.documents, expected.documents);
    EXPECT_EQ(prefetcher.state(), stream.state());
  }
  const StreamState last = prefetcher.state();
  EXPECT_FALSE(prefetcher.next(got));
  EXPECT_FALSE(prefetcher.next(got));
  EXPECT_EQ(prefetcher.state(), last);
  EXPECT_GE(prefetcher.waited_seconds(), 0);
}

TEST_P(PrefetcherDepth, ResumingSkipsAndRepeatsNothing) {
  const TempDir dir;
  BatchStream whole = small_stream(dir, true);
  StreamState saved;
  Batch batch;
  {
    Prefetcher prefetcher(small_stream(dir, true), GetParam());
    for (int i = 0; i < 5; ++i) prefetcher.next(batch);
    saved = prefetcher.state();
  }
  Batch expected;
  for (int i = 0; i < 5; ++i) whole.next(expected);
  BatchStream resumed = small_stream(dir, true);
  resumed.restore(saved);
  Prefetcher prefetcher(std::move(resumed), GetParam());
  for (int i = 0; i < 20; ++i) {
    whole.next(expected);
    ASSERT_TRUE(prefetcher.next(batch));
    EXPECT_EQ(batch.tokens, expected.tokens);
  }
}

/// Numbers its batches; throws instead of the one with number `fail_at`.
Prefetcher::Source counting(int fail_at) {
  return [count = 0, fail_at](Batch& batch, StreamState& state) mutable {
    if (count == fail_at) throw Error("the disk is gone");
    batch.tokens = {count};
    state.rows = ++count;
    return true;
  };
}

TEST_P(PrefetcherDepth, AnExceptionComesAfterTheBatchesBeforeIt) {
  Prefetcher prefetcher(counting(3), StreamState{}, GetParam());
  Batch batch;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(prefetcher.next(batch));
    EXPECT_EQ(batch.tokens[0], i);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(error_of([&] { prefetcher.next(batch); }), HasSubstr("the disk is gone"));
    EXPECT_EQ(prefetcher.state().rows, 3) << "the last batch handed out";
  }
}

TEST(Prefetcher, RunsAheadByItsDepthAndNoFurther) {
  std::counting_semaphore<> made(0);
  std::atomic<int> count = 0;
  Prefetcher prefetcher(
      [&](Batch& batch, StreamState& state) {
        batch.tokens = {count++};
        state.rows = count;
        made.release();
        return true;
      },
      StreamState{}, 3);
  for (int i = 0; i < 3; ++i) made.acquire();  // made without anybody asking
  EXPECT_EQ(count, 3);
  EXPECT_EQ(prefetcher.state().rows, 0);
  Batch batch;
  prefetcher.next(batch);
  EXPECT_EQ(prefetcher.state().rows, 1);
  made.acquire();
  EXPECT_EQ(count, 4);
}

TEST(Prefetcher, CountsTheTimeItWaited) {
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> asked = false;
  Prefetcher prefetcher(
      [&](Batch&, StreamState&) {
        while (!asked) std::this_thread::yield();
        const auto until = Clock::now() + std::chrono::milliseconds(100);
        while (Clock::now() < until) std::this_thread::yield();
        return false;
      },
      StreamState{}, 1);
  Batch batch;
  const auto begin = Clock::now();
  asked = true;
  EXPECT_FALSE(prefetcher.next(batch));
  EXPECT_GT(prefetcher.waited_seconds(), 0.0);
  EXPECT_LE(prefetcher.waited_seconds(),
            std::chrono::duration<double>(Clock::now() - begin).count());
}

TEST(Prefetcher, IsDestroyedWhileItsThreadWaitsForRoom) {
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(counting(-1), StreamState{}, 1 + i % 3);
    Batch batch;
    if (i % 2 == 0) prefetcher.next(batch);
  }
}

TEST(Prefetcher, ReusesTheMemoryOfOldBatches) {
  const std::int32_t* seen[8] = {};
  int distinct = 0;
  Prefetcher prefetcher(
      [](Batch& batch, StreamState&) {
        batch.tokens.resize(1000);
        return true;
      },
      StreamState{}, 2);
  Batch batch;
  for (int i = 0; i < 100; ++i) {
    prefetcher.next(batch);
    const auto end = seen + distinct;
    if (std::find(seen, end, batch.tokens.data()) == end) {
      ASSERT_LT(distinct, 8) << "a fresh allocation each time";
      seen[distinct++] = batch.tokens.data();
    }
  }
}

}  // namespace
}  // namespace plimsoll::data
