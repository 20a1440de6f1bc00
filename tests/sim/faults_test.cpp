#include "sim/driver/faults.h"

#include <gmock/gmock.h>

#include <cstring>

#include "sim/driver/machine.h"
#include "tests/expect_error.h"
#include "tests/sim/tiny_profile.h"

namespace plimsoll::sim {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

class FaultTest : public ::testing::TestWithParam<Mode> {
 protected:
  std::unique_ptr<Machine> make(std::vector<FaultRule> faults) {
    MachineOptions options;
    options.profile = tiny_profile();
    options.mode = GetParam();
    options.seed = 3;
    options.faults = std::move(faults);
    return std::make_unique<Machine>(options);
  }
  bool real() const { return GetParam() != Mode::kCost; }
};

TEST_P(FaultTest, TheNthAndEveryKthAllocationFail) {
  const auto machine = make({{Fault::kAllocation, 2, 5}});
  const Stream stream = machine->create_stream(0);
  std::vector<int> failed;
  for (int i = 1; i <= 11; ++i) try {
      machine->allocate(0, 512, stream);
    } catch (const OutOfMemoryError& error) {
      failed.push_back(i);
      EXPECT_THAT(error.what(), HasSubstr("a fault that was asked for"));
      EXPECT_EQ(error.requested, 512u);
    }
  EXPECT_EQ(failed, (std::vector{2, 5, 10}));
  EXPECT_EQ(machine->statistics(0).ooms, 3);
}

TEST_P(FaultTest, APinnedAllocationFails) {
  const auto machine = make({{Fault::kPinnedAllocation, 1, 0}});
  EXPECT_THAT(error_of([&] { machine->allocate_host(4096); }), HasSubstr("pinned allocation 1"));
  machine->allocate_host(4096);
}

TEST_P(FaultTest, AFailedCopyDoesNotHappenAndTheNextWaitTells) {
  const auto machine = make({{Fault::kCopy, 2, 0}});
  const Stream stream = machine->create_stream(0);
  const Address device = machine->allocate(0, 4096, stream), host = machine->allocate_host(8192);
  const auto* const bytes = reinterpret_cast<const char*>(host);
  machine->launch(stream, {.body = [&] { std::memset(machine->for_tasks(device), 5, 4096); }});
  machine->copy(stream, host, device, 4096, machine->label("first"));
  machine->copy(stream, host + 4096, device, 4096, machine->label("second"));
  EXPECT_THAT(error_of([&] { machine->synchronize(stream); }), HasSubstr("copy 2 'second' failed"));
  if (real()) {
    EXPECT_EQ(bytes[0], 5);
    EXPECT_EQ(bytes[4096], 0);
  }
  machine->synchronize(stream);  // told once; the stream goes on
  machine->copy(stream, host + 4096, device, 4096);
  machine->synchronize(stream);
  if (real()) {
    EXPECT_EQ(bytes[4096], 5);
  }
}

TEST_P(FaultTest, TheFirstErrorIsKeptAndEventsCarryIt) {
  const auto machine = make({{Fault::kKernel, 2, 0}, {Fault::kKernel, 3, 0}});
  const Stream a = machine->create_stream(0), b = machine->create_stream(0);
  const Event before = machine->create_event(), after = machine->create_event();
  const auto kernel = [&](Stream stream, const char* name) {
    machine->launch(stream, {.label = machine->label(name), .cost = 100});
  };
  kernel(a, "one");
  machine->record(before, a);
  kernel(a, "two");
  kernel(a, "three");
  machine->record(after, a);
  machine->wait(b, after);
  kernel(b, "four");
  machine->synchronize(before);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([&] { machine->synchronize(after); }), HasSubstr("'two'")) << i;
  EXPECT_THAT(error_of([&] {
                while (!machine->query(after)) {
                }
              }),
              HasSubstr("'two'"));
  EXPECT_THAT(error_of([&] { machine->synchronize(b); }), HasSubstr("'two'")) << "poisoned by a";
  EXPECT_THAT(error_of([&] { machine->synchronize_device(0); }), HasSubstr("'two'")) << "of a";
  machine->synchronize_device(0);
  machine->record(after, a);
  machine->synchronize(after);
}

TEST_P(FaultTest, WhatABodyThrowsIsCarriedTheSameWay) {
  if (!real()) return;  // no bodies run
  const auto machine = make({});
  const Stream a = machine->create_stream(0), b = machine->create_stream(0);
  machine->launch(a, {.body = [] { throw Error("index 7 is out of range"); }});
  bool ran = false;
  machine->launch(a, {.body = [&] { ran = true; }});
  machine->launch(b, {.cost = 10});
  machine->synchronize(b);
  EXPECT_THAT(error_of([&] { machine->synchronize(a); }), HasSubstr("index 7"));
  EXPECT_TRUE(ran) << "what comes behind still runs";
}

// The block's next user inherits a hidden dependency on the copy, but not its failure.
TEST_P(FaultTest, ReusedMemoryDoesNotCarryAFailure) {
  const auto machine = make({{Fault::kCopy, 1, 0}});
  const Stream a = machine->create_stream(0), b = machine->create_stream(0);
  const Address x = machine->allocate(0, 4096, a), host = machine->allocate_host(4096);
  const Event ready = machine->create_event();
  machine->record(ready, a);
  machine->wait(b, ready);
  machine->copy(b, host, x, 4096);
  machine->record_stream(x, b);
  machine->free(x);
  machine->charge(1'000'000);
  EXPECT_EQ(machine->allocate(0, 4096, a), x);
  machine->launch(a, {.cost = 10});
  machine->synchronize(a);
  EXPECT_THAT(error_of([&] { machine->synchronize(b); }), HasSubstr("copy 1"));
}

TEST_P(FaultTest, ALostDeviceStaysLost) {
  const auto machine = make({{Fault::kDevice, 2, 0}});
  const Stream stream = machine->create_stream(0);
  const Address x = machine->allocate(0, 4096, stream), host = machine->allocate_host(4096);
  const Event event = machine->create_event();
  machine->launch(stream, {.cost = 10});
  machine->copy(stream, host, x, 4096);
  machine->record(event, stream);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(error_of([&] { machine->synchronize(event); }), HasSubstr("device 0 is lost"));
    EXPECT_THAT(error_of([&] { machine->synchronize(stream); }), HasSubstr("device 0 is lost"));
    EXPECT_THAT(error_of([&] { machine->synchronize_device(0); }), HasSubstr("is lost"));
    EXPECT_THAT(error_of([&] { machine->query(stream); }), HasSubstr("is lost"));
    EXPECT_THAT(error_of([&] { machine->allocate(0, 512, stream); }), HasSubstr("is lost"));
  }
  bool ran = false;
  machine->launch(stream, {.body = [&] { ran = true; }});
  machine->drain();
  EXPECT_FALSE(ran);
  machine->free(x);
}

TEST_P(FaultTest, ALinkSlowsDown) {
  const auto machine = make({});
  const Stream stream = machine->create_stream(0);
  const Address x = machine->allocate(0, 100000, stream), host = machine->allocate_host(100000);
  machine->synchronize(stream);
  machine->slow_link(3);
  const Nanoseconds start = machine->now();
  machine->copy(stream, host, x, 100000);
  machine->synchronize(stream);
  EXPECT_EQ(machine->now() - start, 700 + 1000 + 30000);
  EXPECT_THAT(error_of([&] { machine->slow_link(0.5); }), HasSubstr("0.5"));
}

TEST_P(FaultTest, RulesComeAndGo) {
  const auto machine = make({});
  const Stream stream = machine->create_stream(0);
  machine->add_fault({Fault::kKernel, 0, 1});
  machine->launch(stream, {.cost = 1});
  EXPECT_THAT(error_of([&] { machine->synchronize(stream); }), HasSubstr("kernel 1"));
  machine->clear_faults();
  machine->launch(stream, {.cost = 1});
  machine->synchronize(stream);
}

INSTANTIATE_TEST_SUITE_P(Modes, FaultTest,
                         ::testing::Values(Mode::kInline, Mode::kExplore, Mode::kCost),
                         [](const auto& info) {
                           return info.param == Mode::kInline    ? "inline"
                                  : info.param == Mode::kExplore ? "explore"
                                                                 : "cost";
                         });

}  // namespace
}  // namespace plimsoll::sim
