// What the detector says, in words, and the rules that the property test does not see.
#include "sim/driver/race.h"

#include <gmock/gmock.h>

#include <cstring>

#include "sim/driver/machine.h"
#include "tests/sim/tiny_profile.h"

namespace plimsoll::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RaceTest : public ::testing::Test {
 protected:
  void make(Races races, Mode mode = Mode::kInline, bool poison = true) {
    MachineOptions options;
    options.profile = tiny_profile(8 << 20);
    options.mode = mode;
    options.races = races;
    options.poison = poison;
    machine = std::make_unique<Machine>(options);
    a = machine->create_stream(0, "compute");
    b = machine->create_stream(0, "copy");
  }
  void use(Stream stream, const std::string& name, Address begin, Address end, bool write) {
    const Access access{begin, end, write};
    machine->launch(stream, {.label = machine->label(name), .cost = 100, .accesses = {&access, 1}});
  }
  void order(Stream earlier, Stream later) {
    const Event event = machine->create_event();
    machine->record(event, earlier);
    machine->wait(later, event);
  }
  std::vector<std::string> texts() {
    std::vector<std::string> texts;
    for (const auto& report : machine->races()) texts.push_back(report.text);
    return texts;
  }

  std::unique_ptr<Machine> machine;
  Stream a, b;
};

TEST_F(RaceTest, AReportSaysEverything) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a);
  order(a, b);
  use(a, "mm [8, 4] x [4, 32]", x, x + 2048, true);
  use(b, "offload", x + 1024, x + 4096, false);
  ASSERT_EQ(machine->races().size(), 1u);
  EXPECT_EQ(
      texts()[0],
      "race: write by 'mm [8, 4] x [4, 32]' (#2) on stream 0 (compute), then read by 'offload' "
      "(#3) on stream 1 (copy), bytes [1024, 2048) of allocation 1: stream 0 (compute) is known "
      "there up to step 1, needed 2: stream 1 (copy) must wait for an event recorded on stream "
      "0 (compute) after #2");
}

TEST_F(RaceTest, TheSameRaceAgainIsCounted) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a);
  order(a, b);
  for (int i = 0; i < 5; ++i) {
    use(a, "write", x, x + 512, true);
    use(b, "read", x, x + 512, false);
    order(b, a);
  }
  const auto races = machine->races();
  ASSERT_EQ(races.size(), 1u);
  EXPECT_EQ(races[0].count, 5u);
  EXPECT_THAT(races[0].text, HasSubstr("(5 times)"));
  machine->clear_races();
  EXPECT_TRUE(machine->races().empty());
}

TEST_F(RaceTest, ReadsDoNotRaceAndNeighboursDoNotTouch) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a);
  order(a, b);
  use(a, "read", x, x + 4096, false);
  use(b, "read", x, x + 4096, false);
  order(a, b);
  order(b, a);
  use(a, "left", x, x + 100, true);
  use(b, "right", x + 100, x + 200, true);
  EXPECT_TRUE(machine->races().empty());
}

TEST_F(RaceTest, NeighboursKeepTheirNames) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 512, a), y = machine->allocate(0, 512, a);
  ASSERT_EQ(y, x + 512);
  order(a, b);
  use(a, "over both", x, y + 512, true);
  use(b, "read", y + 8, y + 16, false);
  ASSERT_EQ(machine->races().size(), 1u);
  EXPECT_THAT(texts()[0], HasSubstr("bytes [8, 16) of allocation 2"));
}

TEST_F(RaceTest, TheHostIsOneSide) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a), host = machine->allocate_host(4096);
  machine->copy(a, host, x, 4096, machine->label("offload"));
  machine->host_access({host, host + 8, false}, machine->label("print"));
  ASSERT_EQ(machine->races().size(), 1u);
  EXPECT_THAT(texts()[0],
              StartsWith("race: write by 'offload' (#3) on stream 0 (compute), then read "
                         "by 'print' (#4) on the host, bytes [0, 8) of allocation 2: "));
  EXPECT_THAT(texts()[0], HasSubstr("the host must wait for an event recorded on stream 0"));
}

TEST_F(RaceTest, HostMemoryOfOthersHasNoAllocation) {
  make(Races::kOn);
  std::vector<char> memory(64);
  const auto host = reinterpret_cast<Address>(memory.data());
  use(a, "write", host, host + 64, true);
  machine->host_access({host, host + 8, false});
  ASSERT_EQ(machine->races().size(), 1u);
  EXPECT_THAT(texts()[0], HasSubstr("8 bytes of host memory"));
}

TEST_F(RaceTest, UseAfterFreeIsReportedEvenIfOrdered) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a, machine->label("activations"));
  machine->free(x, machine->label("activations"));
  use(a, "late", x, x + 100, false);
  use(a, "elsewhere", x + 4 * 1024 * 1024, x + 4 * 1024 * 1024 + 100, false);
  ASSERT_EQ(machine->races().size(), 2u);
  EXPECT_EQ(texts()[0],
            "use after free: free by 'activations' (#2) on stream 0 (compute), then read by 'late' "
            "(#3) on stream 0 (compute), bytes [0, 100) of allocation 1");
  EXPECT_EQ(texts()[1],
            "use of memory outside any allocation: read by 'elsewhere' (#4) on stream 0 (compute), "
            "100 bytes");
}

TEST_F(RaceTest, UseAfterFreeOfPinnedMemory) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a), host = machine->allocate_host(4096);
  machine->free_host(host, machine->label("buffer"));
  use(a, "late", host, host + 100, false);
  machine->host_access({host, host + 1, false}, machine->label("host read"));
  machine->free(x);
  ASSERT_EQ(machine->races().size(), 2u);
  EXPECT_THAT(texts()[0], StartsWith("use after free: free by 'buffer' (#3) on the host, then read "
                                     "by 'late' (#4)"));
}

// Without the detector, the poison shows it: whoever reads freed memory reads no number.
TEST_F(RaceTest, UseAfterFreeMeetsThePoison) {
  for (const Mode mode : {Mode::kInline, Mode::kExplore})
    for (const bool recorded : {false, true})
      for (const bool poison : {false, true}) {
        make(Races::kOff, mode, poison);
        const Address x = machine->allocate(0, 4096, a);
        machine->launch(a, {.body = [&] {
                          for (int i = 0; i < 1024; ++i)
                            reinterpret_cast<float*>(machine->for_tasks(x))[i] = 1;
                        }});
        if (recorded) {
          machine->record_stream(x, b);
          order(a, b);
        }
        machine->free(x);
        machine->drain();  // the poison of a recorded block is in no stream's order
        float seen = 0;
        machine->launch(
            a, {.body = [&] { std::memcpy(&seen, machine->for_tasks(x + 4092), sizeof seen); }});
        machine->synchronize(a);
        if (!poison) {
          EXPECT_EQ(seen, 1);
        } else if (!recorded || mode == Mode::kInline) {
          EXPECT_NE(seen, seen) << "not NaN";
        }
      }
}

TEST_F(RaceTest, StreamsMustBeOrderedWithTheAllocation) {
  for (const Races races : {Races::kOn, Races::kExact}) {
    make(races);
    const Address x = machine->allocate(0, 4096, a);
    use(b, "write", x, x + 100, true);
    EXPECT_EQ(machine->races().size(), races == Races::kOn ? 1u : 0u)
        << "fresh memory has no history";
    machine->synchronize_device(0);
    machine->clear_races();
    use(a, "read", x, x + 100, false);
    machine->free(x);
    const Address y = machine->allocate(0, 4096, a);
    ASSERT_EQ(x, y);
    use(b, "write again", y, y + 100, true);
    EXPECT_GE(machine->races().size(), 1u) << "what used it before is not ordered either";
  }
}

TEST_F(RaceTest, ExactStillSeesUseAfterFree) {
  make(Races::kExact);
  const Address x = machine->allocate(0, 4096, a);
  machine->free(x);
  use(a, "late", x, x + 100, false);
  use(a, "elsewhere", x + 4096, x + 4196, false);
  EXPECT_THAT(texts(), ::testing::ElementsAre(HasSubstr("use after free"),
                                              HasSubstr("outside any allocation")));
}

// .item() waits for the device; so a missing wait elsewhere is hidden until somebody drops the
// print.
TEST_F(RaceTest, WhatIfTheIncidentalWaitWereGone) {
  for (const int between : {0, 1, 2}) {
    make(Races::kWhatif);
    const Address x = machine->allocate(0, 4096, a), loss = machine->allocate(0, 512, a);
    const Address host = machine->allocate_host(4096);
    float value = 0;
    const auto at = reinterpret_cast<Address>(&value);
    order(a, b);
    use(a, "k", x, x + 4096, true);
    use(a, "loss", loss, loss + 4, true);
    if (between == 1) machine->copy(a, at, loss, 4, machine->label("item"));
    if (between == 2) machine->synchronize_device(0);
    machine->copy(b, host, x, 4096, machine->label("offload"));
    if (between == 1) machine->host_access({at, at + 4, false});  // what was read is settled
    const auto races = machine->races();
    ASSERT_EQ(races.size(), between == 2 ? 0u : 1u) << between;
    if (between == 2) continue;
    EXPECT_EQ(races[0].only_if, between == 1);
    if (between == 1) {
      EXPECT_THAT(races[0].text,
                  StartsWith("hidden by an incidental wait 'item': race: write by 'k'"));
    }
  }
}

TEST_F(RaceTest, EmptyCacheOrdersButOnlyIncidentally) {
  make(Races::kWhatif);
  const Address x = machine->allocate(0, 4096, a), y = machine->allocate(0, 3 << 20, a);
  order(a, b);
  use(a, "write", x, x + 4096, true);
  machine->free(y);
  machine->empty_cache(0);
  use(b, "read", x, x + 4096, false);
  const auto races = machine->races();
  ASSERT_EQ(races.size(), 1u);
  EXPECT_TRUE(races[0].only_if);
  EXPECT_THAT(races[0].text, HasSubstr("'empty_cache'"));
}

// The retry of an allocation waits in virtual time, but nobody is told anything by it.
TEST_F(RaceTest, AnOutOfMemoryRetryOrdersNothing) {
  make(Races::kOn);
  const Address x = machine->allocate(0, 4096, a);
  order(a, b);
  const Address y = machine->allocate(0, 5 << 20, a);
  use(a, "write", x, x + 4096, true);
  machine->free(y);
  machine->allocate(0, 6 << 20, b);
  EXPECT_EQ(machine->statistics(0).alloc_retries, 1);
  use(b, "read", x, x + 4096, false);
  EXPECT_EQ(machine->races().size(), 1u);
}

}  // namespace
}  // namespace plimsoll::sim
