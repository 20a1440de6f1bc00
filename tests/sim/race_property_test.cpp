// The race detector against a reference that keeps everything and searches the whole graph.
// PLIMSOLL_SIM_PROGRAMS=10000 draws that many programs instead of the few of `make test`.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/sim/random_program.h"

namespace plimsoll::sim::testing {
namespace {

int programs() {
  const char* const wanted = std::getenv("PLIMSOLL_SIM_PROGRAMS");
  return wanted != nullptr ? std::max(1, std::atoi(wanted)) : 700;
}

Shape draw_shape(std::uint64_t seed) {
  Random random(seed);
  Shape shape;
  shape.streams = 2 + random.below(7);
  shape.steps = 20 + random.below(60);
  shape.stale = random.below(2) != 0;
  shape.memory = random.below(4) != 0;
  shape.host_waits = random.below(3) != 0;
  shape.wait_weight = 1 + random.below(30);
  shape.pageable = random.below(2) != 0;
  shape.capacity = std::uint64_t{4 + 2 * random.below(3)} << 20;
  return shape;
}

struct Tally {
  std::uint64_t racy_programs = 0, reports = 0, use_after_free = 0, racy_accesses = 0, pairs = 0;
  std::uint64_t retries = 0, ooms = 0;
};

// Compares one run with the reference; true where the reference finds a race.
bool check(const Program& program, const Shape& shape, const std::string& name, Tally& tally) {
  Reference reference(shape.streams);
  const Outcome outcome = run(program, shape, {}, &reference);
  reference.close();
  tally.retries += outcome.statistics.at("num_alloc_retries");
  tally.ooms += outcome.statistics.at("num_ooms");
  tally.reports += outcome.races.size();

  std::map<Sequence, std::vector<const Race*>> reported;
  for (const Race& race : outcome.races) reported[race.second.number].push_back(&race);
  std::map<Sequence, std::vector<const Reference::Used*>> uses;
  for (const auto& use : reference.uses) uses[use.number].push_back(&use);
  const auto overlap = [](const Reference::Used& a, const Reference::Used& b) {
    return a.begin < b.end && b.begin < a.end && (a.write || b.write);
  };

  // No false alarm: each report is of accesses that really race.
  for (const Race& race : outcome.races) {
    bool right = false;
    for (const auto* second : uses[race.second.number]) {
      if (race.use_after_free) right = right || second->tenancy == 0;
      if (race.use_after_free) continue;
      for (const auto* first : uses[race.first.number])
        right =
            right || (overlap(*first, *second) && !reference.before(first->followed, second->node));
    }
    tally.use_after_free += race.use_after_free;
    EXPECT_TRUE(right) << name << ": false alarm, #" << race.first.number << " and #"
                       << race.second.number;
  }

  // No miss: whatever races with anything earlier is reported.
  bool any = false;
  for (std::size_t j = 0; j < reference.uses.size(); ++j) {
    const auto& later = reference.uses[j];
    const auto& found = reported[later.number];
    if (later.tenancy == 0) {
      any = true;
      EXPECT_TRUE(std::ranges::any_of(found, [](auto* race) { return race->use_after_free; }))
          << name << ": use after free missed, #" << later.number;
      continue;
    }
    bool races = false;
    for (std::size_t i = 0; i < j; ++i) {
      const auto& earlier = reference.uses[i];
      if (earlier.node == later.node || earlier.tenancy == 0 || !overlap(earlier, later)) continue;
      if (reference.before(earlier.followed, later.node)) continue;
      if (earlier.tenancy == later.tenancy) {
        races = true;
        continue;
      }
      if (earlier.tenancy >= kHostTenancies) continue;  // a pinned buffer starts anew
      // Two uses of the memory: fine if each is ordered with its own free and allocation.
      const bool before_free = reference.before(earlier.node, reference.death[earlier.tenancy]);
      const bool after_birth = reference.before(reference.birth[later.tenancy], later.node);
      if (before_free && after_birth) continue;
      any = true;
      ++tally.pairs;
      const Sequence at = before_free ? later.number : reference.death_number[earlier.tenancy];
      EXPECT_FALSE(reported[at].empty())
          << name << ": missed across a reuse, #" << earlier.number << " and #" << later.number
          << ", kinds " << static_cast<int>(earlier.kind) << " and " << static_cast<int>(later.kind)
          << (before_free ? ", after the free" : ", at the free");
    }
    if (!races) continue;
    any = true;
    ++tally.racy_accesses;
    EXPECT_FALSE(found.empty()) << name << ": missed, #" << later.number;
  }
  EXPECT_EQ(any, !outcome.races.empty()) << name;
  tally.racy_programs += any;
  return any;
}

TEST(RaceProperty, RandomProgramsAreJudgedAsTheReferenceDoes) {
  Tally tally;
  for (int i = 0; i < programs(); ++i) {
    const Shape shape = draw_shape(i + 77);
    check(draw(i, shape), shape, "program " + std::to_string(i), tally);
    ASSERT_FALSE(HasFailure()) << "program " << i;
  }
  // The programs reach what they are for.
  EXPECT_GT(tally.racy_programs, programs() / 2u);
  EXPECT_GT(tally.use_after_free, 0u);
  EXPECT_GT(tally.pairs, 0u);
  EXPECT_GT(tally.retries, 0u);
  EXPECT_GT(tally.ooms, 0u);
  std::printf("%d programs, %lu reports, %lu retries, %lu out of memory\n", programs(),
              tally.reports, tally.retries, tally.ooms);
}

TEST(RaceProperty, OneEdgeRemovedIsReportedWhereItWasNecessary) {
  Tally repaired, removed;
  int programs_repaired = 0, necessary = 0;
  for (int i = 0; i < programs(); ++i) {
    Shape shape = draw_shape(i + 1'000'077);
    shape.stale = false;
    shape.wait_weight = 4 + i % 20;
    Program program = draw(i + 1'000'000, shape);
    if (!repair(program, shape)) continue;
    ++programs_repaired;
    const std::string name = "program " + std::to_string(i);
    EXPECT_FALSE(check(program, shape, name + " repaired", repaired));
    std::vector<std::size_t> edges;
    for (std::size_t k = 0; k < program.size(); ++k)
      if (program[k].op == Op::kOrder || program[k].op == Op::kHostOrder ||
          program[k].op == Op::kWait)
        edges.push_back(k);
    if (edges.empty()) continue;
    Random random(i + 5);
    program.erase(
        program.begin() +
        static_cast<std::ptrdiff_t>(edges[random.below(static_cast<std::uint32_t>(edges.size()))]));
    necessary += check(program, shape, name + " with an edge removed", removed);
    ASSERT_FALSE(HasFailure()) << name;
  }
  EXPECT_GT(programs_repaired, programs() * 9 / 10);
  EXPECT_EQ(repaired.reports, 0u);
  EXPECT_GT(necessary, programs() / 10);
  EXPECT_LT(necessary, programs_repaired);
  std::printf("%d repaired; the removed edge was necessary in %d\n", programs_repaired, necessary);
}

}  // namespace
}  // namespace plimsoll::sim::testing
