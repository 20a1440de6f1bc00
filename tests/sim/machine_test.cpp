#include "sim/driver/machine.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/expect_error.h"
#include "tests/sim/tiny_profile.h"

namespace plimsoll::sim {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

MachineOptions options(Mode mode, costmodel::Profile profile = tiny_profile()) {
  MachineOptions options;
  options.profile = std::move(profile);
  options.mode = mode;
  return options;
}

constexpr Mode kModes[] = {Mode::kInline, Mode::kExplore, Mode::kCost};

void kernel(Machine& machine, Stream stream, Nanoseconds cost) {
  machine.launch(stream, {.cost = cost});
}

// Chunks are copied in on one stream and computed on with another.
Nanoseconds pipeline(Mode mode, int chunks, Nanoseconds cost) {
  Machine machine(options(mode, free_host_profile()));
  const Stream in = machine.create_stream(0), compute = machine.create_stream(0);
  const Address device = machine.allocate(0, 1 << 20, in);
  const Address host = machine.allocate_host(1 << 20);
  const Event copied = machine.create_event();
  const Nanoseconds start = machine.now();
  for (int k = 0; k < chunks; ++k) {
    machine.copy(in, device + k * 100000, host + k * 100000, 100000);
    machine.record(copied, in);
    machine.wait(compute, copied);
    kernel(machine, compute, cost);
  }
  machine.synchronize_device(0);
  EXPECT_TRUE(machine.races().empty());
  return machine.now() - start;
}

TEST(Time, PipelinesHaveTheirClosedForm) {
  for (const Mode mode : kModes) {
    EXPECT_EQ(pipeline(mode, 8, 25000), 11000 + 8 * 25000) << "kernel bound";
    EXPECT_EQ(pipeline(mode, 8, 4000), 8 * 11000 + 4000) << "copy bound";
  }
}

TEST(Time, PinnedCopiesCostTheHostAnEnqueueOnly) {
  Machine machine(options(Mode::kCost));
  const Stream stream = machine.create_stream(0);
  const Address device = machine.allocate(0, 1 << 20, stream);
  const Address host = machine.allocate_host(1 << 20);
  const Nanoseconds start = machine.now();
  machine.copy(stream, host, device, 100000);
  EXPECT_EQ(machine.now() - start, 700);
  machine.synchronize(stream);
  EXPECT_EQ(machine.now() - start, 700 + 1000 + 10000) << "the wait is shorter than the copy";
}

TEST(Time, PageableCopiesOutBlockAndInAreStaged) {
  Machine machine(options(Mode::kInline));
  const Stream stream = machine.create_stream(0);
  const Address device = machine.allocate(0, 1 << 20, stream);
  std::vector<char> memory(100000, 'x');
  const auto host = reinterpret_cast<Address>(memory.data());
  Nanoseconds start = machine.now();
  machine.copy(stream, device, host, 100000);
  EXPECT_EQ(machine.now() - start, 30000 + 700) << "three of four parts are the host's staging";
  std::fill(memory.begin(), memory.end(), 'y');  // the source is free
  machine.synchronize(stream);
  start = machine.now();
  machine.copy(stream, host, device, 100000);
  EXPECT_EQ(machine.now() - start, 700 + 1000 + 40000);
  EXPECT_EQ(memory[99999], 'x');
  EXPECT_TRUE(machine.races().empty());
}

TEST(Time, OneCopyLaneServesBothDirections) {
  for (const int lanes : {1, 2}) {
    auto profile = free_host_profile();
    profile.copy_lanes = lanes;
    Machine machine(options(Mode::kCost, profile));
    const Stream in = machine.create_stream(0), out = machine.create_stream(0);
    const Address a = machine.allocate(0, 100000, in), b = machine.allocate(0, 100000, out);
    const Address host = machine.allocate_host(200000);
    const Nanoseconds start = machine.now();
    machine.copy(in, a, host, 100000);
    machine.copy(out, host + 100000, b, 100000);
    machine.synchronize_device(0);
    EXPECT_EQ(machine.now() - start, lanes == 1 ? 22000 : 11000);
  }
}

TEST(Time, TheCopyThatStartsSecondPaysForDuplex) {
  for (const Mode mode : kModes) {
    auto profile = free_host_profile();
    profile.duplex_factor = 1.5;
    Machine machine(options(mode, profile));
    const Stream in = machine.create_stream(0), out = machine.create_stream(0);
    const Address a = machine.allocate(0, 100000, in), b = machine.allocate(0, 100000, out);
    const Address host = machine.allocate_host(200000);
    const Nanoseconds start = machine.now();
    machine.copy(in, a, host, 100000);
    machine.copy(out, host + 100000, b, 100000);
    machine.synchronize(in);
    EXPECT_EQ(machine.now() - start, 11000);
    machine.synchronize(out);
    EXPECT_EQ(machine.now() - start, 1000 + 15000) << "latency is not stretched";
  }
}

TEST(Time, ACopyOnTheDeviceReadsAndWritesItsMemory) {
  Machine machine(options(Mode::kInline, free_host_profile()));
  const Stream stream = machine.create_stream(0);
  const Address a = machine.allocate(0, 1 << 20, stream), b = machine.allocate(0, 1 << 20, stream);
  machine.launch(stream, {.body = [&] { std::memset(machine.for_tasks(a), 7, 1 << 20); }});
  machine.synchronize(stream);
  const Nanoseconds start = machine.now();
  machine.copy(stream, b, a, 1 << 20);
  machine.synchronize(stream);
  EXPECT_EQ(machine.now() - start, 2097);
  EXPECT_EQ(machine.for_tasks(b)[1000], std::byte{7});
}

TEST(Events, AnswersAreVirtual) {
  for (const Mode mode : kModes) {
    Machine machine(options(mode));
    const Stream stream = machine.create_stream(0);
    const Event event = machine.create_event();
    EXPECT_TRUE(machine.query(event)) << "never recorded";
    int ran = 0;
    machine.launch(stream, {.cost = 5000, .body = [&] { ++ran; }});
    machine.record(event, stream);
    int asked = 0;
    while (!machine.query(event)) ++asked;
    EXPECT_EQ(asked, 6) << "a query takes 700 ns and the first came 1400 ns after the launch";
    EXPECT_EQ(ran, mode == Mode::kCost ? 0 : 1) << "done means that it has run";
    EXPECT_TRUE(machine.query(stream));
  }
}

TEST(Events, AWaiterKeepsTheVersionItSaw) {
  for (const Mode mode : kModes) {
    Machine machine(options(mode, free_host_profile()));
    const Stream a = machine.create_stream(0), b = machine.create_stream(0);
    const Event event = machine.create_event(), done = machine.create_event();
    const Nanoseconds start = machine.now();
    machine.copy(a, machine.allocate_host(1 << 20), machine.allocate(0, 1 << 20, a), 9000);
    machine.record(event, a);
    machine.wait(b, event);
    kernel(machine, a, 1'000'000);
    machine.record(event, a);  // again: b still waits for the copy alone
    machine.record(done, b);
    machine.synchronize(done);
    EXPECT_LT(machine.now() - start, 1'000'000) << static_cast<int>(mode);
  }
}

TEST(Events, ElapsedTimeIsVirtual) {
  Machine machine(options(Mode::kExplore));
  const Stream stream = machine.create_stream(0);
  const Event before = machine.create_event(), after = machine.create_event();
  machine.record(before, stream);
  kernel(machine, stream, 12345);
  machine.record(after, stream);
  EXPECT_THAT(error_of([&] { machine.elapsed(before, after); }), HasSubstr("not done"));
  machine.synchronize(after);
  EXPECT_EQ(machine.elapsed(before, after), 700 + 12345);
  EXPECT_THAT(error_of([&] { machine.elapsed(machine.create_event(), after); }),
              HasSubstr("never recorded"));
}

TEST(Machine, SaysWhatIsWrongWithACall) {
  Machine machine(options(Mode::kInline));
  const Stream stream = machine.create_stream(0);
  EXPECT_THAT(error_of([&] { machine.create_stream(1); }), HasSubstr("no device 1; there are 1"));
  EXPECT_THAT(error_of([&] { kernel(machine, Stream{7}, 1); }), HasSubstr("no stream 7"));
  EXPECT_THAT(error_of([&] { machine.record(Event{3}, stream); }), HasSubstr("no event 3"));
  EXPECT_THAT(error_of([&] { machine.free(1234); }), HasSubstr("not in device memory"));
  const Event event = machine.create_event();
  machine.destroy_event(event);
  EXPECT_THAT(error_of([&] { machine.query(event); }), HasSubstr("no event 0"));
  const Address a = machine.allocate(0, 1000, stream);
  EXPECT_THAT(error_of([&] { machine.free(a + 512); }), HasSubstr("not the begin"));
  machine.free(a);
  EXPECT_THAT(error_of([&] { machine.free(a); }), HasSubstr("freed before"));
  EXPECT_THAT(error_of([&] { machine.free_host(1); }), HasSubstr("pinned"));
}

TEST(Machine, ABodyMustNotCallIt) {
  Machine machine(options(Mode::kInline));
  const Stream stream = machine.create_stream(0);
  machine.launch(stream, {.body = [&] { machine.now(); }});
  EXPECT_THAT(error_of([&] { machine.synchronize(stream); }), HasSubstr("must not call"));
  machine.synchronize(stream);  // told once
}

TEST(MachineDeathTest, TheHostCannotReadDeviceMemory) {
  Machine machine(options(Mode::kInline));
  const Stream stream = machine.create_stream(0);
  const Address a = machine.allocate(0, 1000, stream);
  EXPECT_DEATH((void)*reinterpret_cast<volatile char*>(a), "");
}

TEST(Machine, TasksThatNeverRanAreDropped) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    MachineOptions with = options(Mode::kExplore);
    with.seed = seed;
    auto owned = std::make_shared<int>(0);
    {
      Machine machine(with);
      const Stream stream = machine.create_stream(0);
      for (int i = 0; i < 50000; ++i) machine.launch(stream, {.cost = 1000, .body = [owned] {}});
    }
    EXPECT_EQ(owned.use_count(), 1);
  }
}

}  // namespace
}  // namespace plimsoll::sim
