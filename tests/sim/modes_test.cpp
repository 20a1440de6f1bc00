// The same program in every mode: what the program is told must not depend on how work is run.
// PLIMSOLL_SIM_SEEDS=50 explores that many seeds of each program, PLIMSOLL_SIM_PROGRAMS as before.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/sim/random_program.h"

namespace plimsoll::sim::testing {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::max(1, std::atoi(value)) : otherwise;
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& name) {
  EXPECT_EQ(a.now, b.now) << name;
  EXPECT_EQ(a.answers, b.answers) << name;
  EXPECT_EQ(a.statistics, b.statistics) << name;
  EXPECT_TRUE(a.timeline == b.timeline) << name << ": timelines differ";
  EXPECT_EQ(a.reports, b.reports) << name;
}

TEST(Modes, TimesPeaksAnswersAndReportsAreEqual) {
  const int programs = std::min(from_environment("PLIMSOLL_SIM_PROGRAMS", 30), 600);
  const int seeds = from_environment("PLIMSOLL_SIM_SEEDS", 8);
  int racy = 0, corrupted = 0;
  std::int64_t retries = 0, ooms = 0;
  for (int i = 0; i < programs; ++i)
    for (const bool repaired : {false, true}) {
      Random random(i + 5);
      Shape shape;
      shape.streams = 2 + random.below(4);
      shape.slots = 4 + random.below(4);
      shape.steps = 30 + random.below(60);
      shape.capacity = std::uint64_t{4 + 2 * random.below(2)} << 20;
      shape.stale = !repaired && random.below(2) != 0;
      shape.duplex = random.below(2) != 0 ? 1.0 : 1.4;
      shape.pageable = random.below(2) != 0;
      shape.launch_queue = random.below(3) != 0 ? 0 : 2 + static_cast<int>(random.below(3));
      Program program = draw(i + 500'000, shape);
      if (repaired && !repair(program, shape)) continue;
      const std::string name = "program " + std::to_string(i) + (repaired ? " repaired" : "");
      RunOptions options{.mode = Mode::kInline, .races = Races::kWhatif};
      const Outcome once = run(program, shape, options);
      retries += once.statistics.at("num_alloc_retries");
      ooms += once.statistics.at("num_ooms");
      expect_same(once, run(program, shape, options), name + " once more");
      options.poison = false;
      expect_same(once, run(program, shape, options), name + " without poison");
      options.poison = true;
      options.mode = Mode::kCost;
      expect_same(once, run(program, shape, options), name + " in cost");
      options.mode = Mode::kExplore;
      bool differs = false;
      for (int seed = 1; seed <= seeds; ++seed) {
        options.seed = seed;
        const Outcome other = run(program, shape, options);
        expect_same(once, other, name + " in explore, seed " + std::to_string(seed));
        differs = differs || other.memory != once.memory;
        if (once.races.empty()) {
          EXPECT_EQ(other.memory, once.memory) << name << ", seed " << seed << ": race-free";
        }
      }
      ASSERT_FALSE(HasFailure()) << name;
      racy += !once.races.empty();
      corrupted += !once.races.empty() && differs;
    }
  EXPECT_GT(racy, 0);
  EXPECT_GT(corrupted, racy / 4) << "seeds hardly matter";
  EXPECT_GT(retries, 0);
  EXPECT_GT(ooms, 0);
  std::printf("%d programs, %d racy, of which %d end with other bytes on some seed\n", programs,
              racy, corrupted);
}

TEST(Modes, TenRunsHaveTenIdenticalTimelines) {
  Shape shape;
  shape.duplex = 1.3;
  const Program program = draw(42, shape);
  const Outcome once = run(program, shape, {.mode = Mode::kInline});
  EXPECT_GT(once.timeline.size(), 10u);
  for (int i = 0; i < 9; ++i)
    expect_same(once, run(program, shape, {.mode = Mode::kInline}), "run " + std::to_string(i));
}

}  // namespace
}  // namespace plimsoll::sim::testing
