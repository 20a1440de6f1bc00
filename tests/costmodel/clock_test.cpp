#include "plimsoll/costmodel/clock.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace plimsoll::costmodel {
namespace {

// The pool goes last: no reference may outlive it.
struct Simulation {
  JobPool<Job> pool;
  Clock clock;
  std::uint64_t numbers = 0;

  Ref<Job> add(LaneId lane, Nanoseconds cost, const std::vector<Ref<Job>>& after = {},
               Nanoseconds ready = 0, Nanoseconds transfer = 0) {
    Ref<Job> job = pool.make();
    job->lane = lane;
    job->cost = cost;
    job->ready = ready;
    job->transfer = transfer;
    job->number = ++numbers;
    for (auto& before : after) Clock::after(*job, *before);
    clock.submit(job);
    return job;
  }
};

// k chunks are copied, each is then computed on: two lanes.
Nanoseconds pipeline(int chunks, Nanoseconds copy, Nanoseconds kernel) {
  Simulation sim;
  const LaneId in = sim.clock.add_lane(), compute = sim.clock.add_lane();
  Ref<Job> last_copy, last_kernel;
  for (int k = 0; k < chunks; ++k) {
    last_copy = sim.add(in, copy, last_copy ? std::vector{last_copy} : std::vector<Ref<Job>>{});
    std::vector<Ref<Job>> before{last_copy};
    if (last_kernel) before.push_back(last_kernel);
    last_kernel = sim.add(compute, kernel, before);
  }
  sim.clock.finish();
  return last_kernel->end;
}

TEST(Clock, PipelineHasItsClosedForm) {
  for (int chunks : {1, 2, 8, 100}) {
    EXPECT_EQ(pipeline(chunks, 11000, 25000), 11000 + chunks * 25000) << "kernel bound";
    EXPECT_EQ(pipeline(chunks, 11000, 4000), chunks * 11000 + 4000) << "copy bound";
    EXPECT_EQ(pipeline(chunks, 7000, 7000), (chunks + 1) * 7000) << "balanced";
  }
}

TEST(Clock, ALaneTakesByReadyTimeThenByNumber) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  const auto busy = sim.add(lane, 100);
  const auto late = sim.add(lane, 10, {}, 50);   // number 2, ready at 50
  const auto early = sim.add(lane, 10, {}, 20);  // number 3, ready at 20
  const auto tie = sim.add(lane, 10, {}, 20);    // number 4, ready at 20
  sim.clock.finish();
  EXPECT_EQ(busy->end, 100);
  EXPECT_EQ(early->begin, 100);
  EXPECT_EQ(tie->begin, 110);
  EXPECT_EQ(late->begin, 120);
}

TEST(Clock, TheCopyThatStartsSecondPaysForDuplex) {
  Simulation sim;
  const LaneId in = sim.clock.add_lane(), out = sim.clock.add_lane();
  sim.clock.set_duplex(in, out, 1.5);
  const auto first = sim.add(in, 11000, {}, 0, 10000);
  const auto second = sim.add(out, 11000, {}, 0, 10000);
  const auto alone = sim.add(in, 11000, {}, 50000, 10000);
  sim.clock.finish();
  EXPECT_EQ(first->end, 11000);
  EXPECT_EQ(second->end, 16000) << "latency is not stretched";
  EXPECT_EQ(alone->end, 61000);
}

TEST(Clock, WithoutALaneAJobEndsWhenItIsReady) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  const auto work = sim.add(lane, 40);
  const auto marker = sim.add(kNoLane, 0, {work}, 10);
  const auto later = sim.add(kNoLane, 0, {work}, 70);
  EXPECT_FALSE(marker->decided());
  sim.clock.finish();
  EXPECT_EQ(marker->end, 40);
  EXPECT_EQ(later->end, 70);
}

TEST(Clock, EveryTaskTakesTime) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  const auto nothing = sim.add(lane, 0);
  sim.clock.finish();
  EXPECT_EQ(nothing->end, 1);
}

TEST(Clock, AdvanceDecidesNoStartBeyondItsTime) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  const auto first = sim.add(lane, 100);
  const auto second = sim.add(lane, 100);
  sim.clock.advance(99);
  EXPECT_TRUE(first->decided());
  EXPECT_FALSE(second->decided());
  sim.clock.advance(100);
  EXPECT_TRUE(second->decided());
}

TEST(Clock, SettleGoesNoFurtherThanItMust) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  const auto first = sim.add(lane, 100);
  const auto second = sim.add(lane, 100);
  const auto third = sim.add(lane, 100);
  sim.clock.settle(*second);
  EXPECT_EQ(second->end, 200);
  EXPECT_TRUE(first->decided());
  EXPECT_FALSE(third->decided());
  const auto never = sim.pool.make();
  EXPECT_THROW(sim.clock.settle(*never), std::logic_error);
  never->lane = 7;
  EXPECT_THROW(sim.clock.submit(never), std::logic_error);
}

// Random programs, submitted as time goes by: whenever the clock is advanced, the result is one.
TEST(Clock, WhenItIsAdvancedDoesNotMatter) {
  const auto run = [](unsigned seed, int laziness) {
    Simulation sim;
    std::vector<LaneId> lanes;
    for (int i = 0; i < 4; ++i) lanes.push_back(sim.clock.add_lane());
    sim.clock.set_duplex(lanes[1], lanes[2], 1.4);
    std::mt19937 random(seed);
    Nanoseconds now = 0;
    std::vector<Ref<Job>> jobs;
    for (int i = 0; i < 300; ++i) {
      now += random() % 50;
      std::vector<Ref<Job>> after;
      for (unsigned k = random() % 3; k > 0 && !jobs.empty(); --k)
        after.push_back(jobs[random() % jobs.size()]);
      const bool marker = random() % 5 == 0;
      const Nanoseconds cost = random() % 120;
      jobs.push_back(sim.add(marker ? kNoLane : lanes[random() % 4], cost, after, now, cost / 2));
      if (laziness > 0 && i % laziness == 0) sim.clock.advance(now);
    }
    sim.clock.finish();
    std::vector<std::pair<Nanoseconds, Nanoseconds>> times;
    for (auto& job : jobs) times.emplace_back(job->begin, job->end);
    return times;
  };
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto eager = run(seed, 1);
    EXPECT_EQ(eager, run(seed, 7)) << seed;
    EXPECT_EQ(eager, run(seed, 0)) << seed;
  }
}

TEST(Clock, JobsAreUsedAgain) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 10; ++i) sim.add(lane, 5);
    EXPECT_EQ(sim.pool.live(), 10u);
    sim.clock.finish();
    EXPECT_EQ(sim.pool.live(), 0u);
  }
}

TEST(Clock, AChainOfAHundredThousandIsDroppedUndecided) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  Ref<Job> last = sim.add(lane, 5);
  for (int i = 0; i < 100000; ++i) last = sim.add(lane, 5, {last});
}

TEST(Clock, TheObserverSeesEachJobOnce) {
  Simulation sim;
  const LaneId lane = sim.clock.add_lane();
  std::multiset<std::uint64_t> seen;
  sim.clock.observe([&](const Job& job) { seen.insert(job.number); });
  const auto a = sim.add(lane, 10);
  sim.add(kNoLane, 0, {a});
  sim.add(lane, 10, {a});
  sim.clock.finish();
  EXPECT_EQ(seen, (std::multiset<std::uint64_t>{1, 3}));
}

}  // namespace
}  // namespace plimsoll::costmodel
