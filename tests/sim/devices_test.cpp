// Several devices, one host; and several threads of the host.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "sim/driver/machine.h"
#include "tests/expect_error.h"
#include "tests/sim/tiny_profile.h"

namespace plimsoll::sim {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr Mode kModes[] = {Mode::kInline, Mode::kExplore, Mode::kCost};

MachineOptions two_devices(Mode mode) {
  MachineOptions options;
  options.profile = free_host_profile(8 << 20);
  options.devices = 2;
  options.mode = mode;
  options.timeline = true;
  return options;
}

TEST(Devices, HaveTheirOwnMemoryAndLanes) {
  for (const Mode mode : kModes) {
    Machine machine(two_devices(mode));
    const Stream a = machine.create_stream(0), b = machine.create_stream(1);
    EXPECT_EQ(machine.device_of(b), 1);
    const Address x = machine.allocate(0, 6 << 20, a), y = machine.allocate(1, 6 << 20, b);
    EXPECT_EQ(machine.device_at(x), 0);
    EXPECT_EQ(machine.device_at(y + 100), 1);
    EXPECT_EQ(machine.device_at(1), -1);
    EXPECT_EQ(machine.statistics(1).allocation.all.current, 1);
    EXPECT_THAT(error_of([&] { machine.allocate(0, 6 << 20, a); }), HasSubstr("on device 0"));
    EXPECT_THAT(error_of([&] { machine.allocate(1, 512, a); }), HasSubstr("not of device 1"));
    const Nanoseconds start = machine.now();
    machine.launch(a, {.cost = 50000});
    machine.launch(b, {.cost = 50000});
    machine.synchronize_device(0);
    EXPECT_EQ(machine.now() - start, 50000);
    machine.synchronize_device(1);
    EXPECT_EQ(machine.now() - start, 50000) << "both worked at the same time";
    const auto timeline = machine.timeline();
    ASSERT_EQ(timeline.size(), 2u);
    EXPECT_EQ(timeline[0].device, 0);
    EXPECT_EQ(timeline[1].device, 1);
    EXPECT_EQ(timeline[0].begin, timeline[1].begin);
  }
}

TEST(Devices, CopyToEachOther) {
  for (const Mode mode : kModes) {
    Machine machine(two_devices(mode));
    const Stream a = machine.create_stream(0), b = machine.create_stream(1);
    const Address x = machine.allocate(0, 100000, a), y = machine.allocate(1, 100000, b);
    const auto order = [&](Stream earlier, Stream later) {
      const Event event = machine.create_event();
      machine.record(event, earlier);
      machine.wait(later, event);
    };
    order(b, a);
    const Access writes{x, x + 100000, true};
    machine.launch(a, {.cost = 5000, .accesses = {&writes, 1}, .body = [&] {
                         std::memset(machine.for_tasks(x), 9, 100000);
                       }});
    const Nanoseconds start = machine.now();
    machine.copy(a, y, x, 100000);
    order(a, b);
    bool right = false;
    const Access reads{y, y + 100000, false};
    machine.launch(b, {.cost = 1000, .accesses = {&reads, 1}, .body = [&] {
                         right = machine.for_tasks(y)[99999] == std::byte{9};
                       }});
    machine.synchronize(b);
    EXPECT_EQ(machine.now() - start, 5000 + 1000 + 10000 + 1000);
    EXPECT_EQ(right, mode != Mode::kCost);
    EXPECT_TRUE(machine.races().empty());
    EXPECT_EQ(machine.timeline()[1].lane, Lane::kCopyOut);
  }
}

TEST(Devices, RacesAcrossThemAreSeen) {
  Machine machine(two_devices(Mode::kInline));
  const Stream a = machine.create_stream(0), b = machine.create_stream(1);
  const Address x = machine.allocate(0, 4096, a), y = machine.allocate(1, 4096, b);
  const Event ready = machine.create_event();
  machine.record(ready, b);
  machine.wait(a, ready);
  machine.copy(a, y, x, 4096, machine.label("send"));
  const Access reads{y, y + 4096, false};
  machine.launch(b, {.label = machine.label("use"), .accesses = {&reads, 1}});
  ASSERT_EQ(machine.races().size(), 1u);
  EXPECT_THAT(machine.races()[0].text, HasSubstr("write by 'send'"));
}

// A device that is full waits for its own streams; another's work costs it no time, in any mode.
TEST(Devices, ARetryDoesNotWaitForOthers) {
  for (const Mode mode : kModes)
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      MachineOptions options = two_devices(mode);
      options.seed = seed;
      Machine machine(options);
      const Stream a = machine.create_stream(0), b = machine.create_stream(1);
      machine.launch(b, {.cost = 1'000'000, .body = [] {}});
      const Address x = machine.allocate(0, 5 << 20, a);
      const Nanoseconds start = machine.now();
      machine.launch(a, {.cost = 1000, .body = [] {}});
      machine.free(x);
      machine.allocate(0, 7 << 20, a);
      EXPECT_EQ(machine.statistics(0).alloc_retries, 1);
      machine.launch(a, {.cost = 1000, .body = [] {}});
      machine.synchronize(a);
      ASSERT_EQ(machine.now() - start, 2000) << static_cast<int>(mode) << ", seed " << seed;
    }
}

TEST(Devices, LargeOnesTakeAddressesOnly) {
  for (const auto& name : costmodel::builtin_profile_names()) {
    MachineOptions options;
    options.profile = costmodel::load_profile(name);
    Machine machine(options);
    const Stream stream = machine.create_stream(0);
    const std::uint64_t bytes = options.profile.capacity / 2;
    const Address x = machine.allocate(0, bytes, stream);
    machine.launch(stream, {.body = [&] { *machine.for_tasks(x + bytes - 1) = std::byte{3}; }});
    machine.synchronize(stream);
    EXPECT_EQ(*machine.for_tasks(x + bytes - 1), std::byte{3}) << name;
  }
}

TEST(Devices, AtLeastOne) {
  MachineOptions options = two_devices(Mode::kCost);
  options.devices = 0;
  EXPECT_THAT(error_of([&] { Machine machine(options); }), HasSubstr("at least one device"));
  options.devices = 1;
  options.profile.capacity = 0;
  EXPECT_THAT(error_of([&] { Machine machine(options); }),
              HasSubstr("between 1 byte and 4.00 TiB"));
}

// Calls of several threads are taken one after another; each thread's own work comes out right.
TEST(Threads, MayAllCall) {
  for (const Mode mode : kModes) {
    MachineOptions options = two_devices(mode);
    options.profile.capacity = 64 << 20;
    Machine machine(options);
    std::array<int, 4> counts{};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const int device = t % 2;
        const Stream stream = machine.create_stream(device);
        const Event event = machine.create_event();
        for (int i = 0; i < 200; ++i) {
          const Address x = machine.allocate(device, 4096, stream, machine.label("x"));
          const Address host = machine.allocate_host(4096);
          const Access access{x, x + 4096, true};
          machine.launch(stream, {.cost = 100, .accesses = {&access, 1}, .body = [&counts, t] {
                                    ++counts[t];
                                  }});
          machine.copy(stream, host, x, 4096);
          machine.record(event, stream);
          machine.free(x);
          if (i % 10 == 0) machine.synchronize(event);
          machine.free_host(host);
        }
        machine.synchronize(stream);
        machine.destroy_event(event);
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(counts, (mode == Mode::kCost ? std::array<int, 4>{}
                                           : std::array<int, 4>{200, 200, 200, 200}));
    EXPECT_TRUE(machine.races().empty()) << machine.races()[0].text;
  }
}

// A launch queue that is full holds the host back, in virtual time and nothing else.
TEST(LaunchQueue, HoldsTheHostBack) {
  MachineOptions options;
  options.profile = free_host_profile();
  options.profile.launch_queue = 2;
  options.mode = Mode::kCost;
  Machine machine(options);
  const Stream stream = machine.create_stream(0);
  for (int i = 0; i < 5; ++i) machine.launch(stream, {.cost = 1000});
  EXPECT_EQ(machine.now(), 3000);
  EXPECT_EQ(machine.footprint().stalls, 3u);
  for (int i = 0; i < 1000; ++i) machine.launch(stream, {.cost = 1000});
  EXPECT_LT(machine.footprint().live_tasks, 10u);
}

}  // namespace
}  // namespace plimsoll::sim
