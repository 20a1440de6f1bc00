#include "sim/driver/allocator.h"

#include <gmock/gmock.h>

#include <cstring>

#include "sim/driver/machine.h"
#include "tests/expect_error.h"
#include "tests/sim/tiny_profile.h"

namespace plimsoll::sim {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

class AllocatorTest : public ::testing::TestWithParam<Mode> {
 protected:
  AllocatorTest() { make(tiny_profile(64 * kMiB)); }

  void make(const costmodel::Profile& profile) {
    MachineOptions options;
    options.profile = profile;
    options.mode = GetParam();
    machine = std::make_unique<Machine>(options);
    a = machine->create_stream(0);
    b = machine->create_stream(0);
  }

  Address allocate(std::uint64_t bytes, Stream stream) {
    return machine->allocate(0, bytes, stream);
  }
  std::uint64_t rounded(std::uint64_t bytes) {
    const Address at = allocate(bytes, a);
    const std::uint64_t size = machine->find(at)->bytes;
    machine->free(at);
    return size;
  }
  std::int64_t value(const std::string& key) { return machine->statistics(0).flat().at(key); }
  void busy(Stream stream, Nanoseconds cost) { machine->launch(stream, {.cost = cost}); }

  std::unique_ptr<Machine> machine;
  Stream a, b;
};

TEST_P(AllocatorTest, SizesAreRoundedTo512) {
  EXPECT_EQ(rounded(0), 512u);
  EXPECT_EQ(rounded(1), 512u);
  EXPECT_EQ(rounded(512), 512u);
  EXPECT_EQ(rounded(513), 1024u);
  EXPECT_EQ(rounded(3 * kMiB + 1), 3 * kMiB + 512);
}

TEST_P(AllocatorTest, PoolsHaveTheirSegments) {
  allocate(kMiB, a);
  EXPECT_EQ(value("reserved_bytes.small_pool.current"), 2 * static_cast<std::int64_t>(kMiB));
  allocate(kMiB + 1, a);
  EXPECT_EQ(value("reserved_bytes.large_pool.current"), 20 * static_cast<std::int64_t>(kMiB));
  allocate(23 * kMiB - 5, a);
  EXPECT_EQ(value("reserved_bytes.large_pool.current"), 44 * static_cast<std::int64_t>(kMiB))
      << "10 MiB and more have segments of their own, in steps of 2 MiB";
  EXPECT_EQ(value("segment.all.current"), 3);
  EXPECT_EQ(value("num_device_alloc"), 3);
  EXPECT_EQ(machine->memory_info(0), (std::pair{64 * kMiB - 46 * kMiB, 64 * kMiB}));
}

TEST_P(AllocatorTest, BlocksAreSplitAndMerged) {
  const Address first = allocate(1000, a), second = allocate(2000, a), third = allocate(512, a);
  EXPECT_EQ(second, first + 1024);
  EXPECT_EQ(third, second + 2048);
  EXPECT_EQ(value("inactive_split.small_pool.current"), 1) << "the rest of the segment";
  machine->free(first);
  machine->free(third);
  EXPECT_EQ(value("inactive_split.small_pool.current"), 2) << "the last one joined the rest";
  machine->free(second);
  EXPECT_EQ(value("inactive_split.small_pool.current"), 0) << "one whole segment";
  EXPECT_EQ(value("inactive_split_bytes.all.current"), 0);
  EXPECT_EQ(allocate(kMiB, a), first);
}

TEST_P(AllocatorTest, ALargeRestUnderAMiBStays) {
  const Address at = allocate(19 * kMiB + 512, a);
  EXPECT_EQ(machine->find(at)->bytes, 20 * kMiB) << "own segment, whole: the rest is under 1 MiB";
  EXPECT_EQ(machine->find(at)->requested, 19 * kMiB + 512);
}

TEST_P(AllocatorTest, AFreedBlockServesItsStreamAtOnceAndNoOther) {
  const Address x = allocate(4096, a);
  busy(a, 1'000'000);
  machine->free(x);
  EXPECT_NE(allocate(4096, b), x);
  EXPECT_EQ(allocate(4096, a), x) << "in the order of the stream, though its work is not done";
}

TEST_P(AllocatorTest, TheBestFitIsTaken) {
  const Address large = allocate(8192, a);
  const Address gap1 = allocate(512, a);
  const Address small = allocate(4096, a);
  const Address gap2 = allocate(512, a);
  machine->free(large);
  machine->free(small);
  EXPECT_EQ(allocate(4096, a), small);
  EXPECT_EQ(allocate(4096, a), large);
  machine->free(gap1);
  machine->free(gap2);
}

TEST_P(AllocatorTest, ARecordedBlockWaitsForItsStreams) {
  const Address x = allocate(4096, a);
  busy(b, 1'000'000);
  machine->record_stream(x, b);
  machine->record_stream(x, b);
  machine->record_stream(x, a);  // its own: nothing
  machine->free(x);
  EXPECT_EQ(value("allocation.all.current"), 0);
  EXPECT_EQ(value("active.all.current"), 1) << "still used by the other stream";
  EXPECT_EQ(value("active_bytes.all.current"), 4096);
  EXPECT_NE(allocate(4096, a), x);
  machine->charge(2'000'000);  // virtual time alone decides; nobody waited
  EXPECT_EQ(allocate(4096, a), x);
  EXPECT_EQ(value("active.all.current"), 2);
}

TEST_P(AllocatorTest, BlocksOfOneStreamSettleInOrder) {
  const Stream c = machine->create_stream(0);
  const Address x = allocate(4096, a), y = allocate(4096, a);
  machine->slow_link(1000);
  machine->copy(b, machine->allocate_host(4096), x, 4096);  // 409,600 ns, on a lane of its own
  busy(c, 1'000);
  machine->record_stream(x, b);
  machine->record_stream(y, c);
  machine->free(x);
  machine->free(y);
  machine->charge(10'000);
  EXPECT_EQ(allocate(4096, a), y) << "another stream's block does not hold it up";
}

TEST_P(AllocatorTest, EmptyCacheGivesUnusedSegmentsBack) {
  const Address x = allocate(4096, a), y = allocate(11 * kMiB, a);
  busy(a, 1'000'000);
  machine->free(y);
  const Nanoseconds before = machine->now();
  machine->empty_cache(0);
  EXPECT_GE(machine->now() - before, 990'000) << "a wait for the device";
  EXPECT_EQ(value("reserved_bytes.all.current"), 2 * static_cast<std::int64_t>(kMiB));
  EXPECT_EQ(value("num_device_free"), 1);
  const Nanoseconds again = machine->now();
  busy(a, 1'000'000);
  machine->empty_cache(0);
  EXPECT_LT(machine->now() - again, 10'000) << "nothing to give back: no wait";
  machine->free(x);
}

TEST_P(AllocatorTest, AFullDeviceIsTriedOnceMoreWithAnEmptyCache) {
  std::vector<Address> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(allocate(12 * kMiB, a));
  for (const Address block : blocks) machine->free(block);
  EXPECT_EQ(value("num_alloc_retries"), 0);
  allocate(40 * kMiB, a);
  EXPECT_EQ(value("num_alloc_retries"), 1);
  EXPECT_EQ(value("num_sync_all_streams"), 1);
  EXPECT_EQ(value("num_ooms"), 0);
  EXPECT_EQ(value("reserved_bytes.all.current"), 40 * static_cast<std::int64_t>(kMiB));
  EXPECT_EQ(value("reserved_bytes.all.peak"), 60 * static_cast<std::int64_t>(kMiB));
}

TEST_P(AllocatorTest, PendingBlocksAreWaitedForWhenMemoryIsShort) {
  const Address x = allocate(40 * kMiB, a);
  busy(b, 5'000'000);
  machine->record_stream(x, b);
  machine->free(x);
  const Nanoseconds before = machine->now();
  allocate(40 * kMiB, a);
  EXPECT_GE(machine->now() - before, 4'900'000);
}

TEST_P(AllocatorTest, TheErrorNamesAllFigures) {
  const Address x = allocate(30 * kMiB, a);
  allocate(4096, a);
  try {
    allocate(60 * kMiB, a);
    FAIL() << "no error";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.requested, 60 * kMiB);
    EXPECT_EQ(error.free, 32 * kMiB);
    EXPECT_EQ(error.reserved, 32 * kMiB);
    EXPECT_EQ(error.allocated, 30 * kMiB + 4096);
    EXPECT_EQ(error.capacity, 64 * kMiB);
    EXPECT_STREQ(
        error.what(),
        "out of memory on device 0: 60.0 MiB requested, 32.0 MiB free, 32.0 MiB reserved of "
        "which 30.0 MiB allocated, capacity 64.0 MiB");
    EXPECT_THAT(error.hint(), HasSubstr("free"));
  }
  EXPECT_EQ(value("num_ooms"), 1);
  machine->free(x);
  allocate(60 * kMiB, a);  // the process goes on
  EXPECT_THAT(error_of([&] { allocate(1ull << 62, a); }), HasSubstr("out of memory"));
}

TEST_P(AllocatorTest, WholeCapacityCanBeHad) {
  const Address x = allocate(64 * kMiB, a);
  EXPECT_EQ(machine->memory_info(0).first, 0u);
  EXPECT_THAT(error_of([&] { allocate(1, a); }), HasSubstr("0 B free"));
  machine->free(x);
  allocate(3 * kMiB, a);
  EXPECT_EQ(value("num_alloc_retries"), 1) << "of the failed one; this was served by the cache";
}

TEST_P(AllocatorTest, NearTheEndASegmentIsJustLargeEnough) {
  allocate(50 * kMiB, a);
  allocate(5 * kMiB, a);
  EXPECT_EQ(value("reserved_bytes.all.current"), 56 * static_cast<std::int64_t>(kMiB));
}

TEST_P(AllocatorTest, StatisticsCountWhatHappened) {
  const Address x = allocate(1000, a), y = allocate(3 * kMiB, a);
  machine->free(x);
  EXPECT_EQ(value("allocation.all.current"), 1);
  EXPECT_EQ(value("allocation.all.peak"), 2);
  EXPECT_EQ(value("allocation.small_pool.freed"), 1);
  EXPECT_EQ(value("allocated_bytes.all.allocated"), 1024 + 3 * static_cast<std::int64_t>(kMiB));
  EXPECT_EQ(value("requested_bytes.small_pool.allocated"), 1000);
  EXPECT_EQ(value("active_bytes.large_pool.current"), 3 * static_cast<std::int64_t>(kMiB));
  machine->free(y);
  EXPECT_EQ(value("allocated_bytes.all.peak"), 1024 + 3 * static_cast<std::int64_t>(kMiB));
  machine->reset_peak_statistics(0);
  EXPECT_EQ(value("allocated_bytes.all.peak"), 0);
  EXPECT_EQ(value("allocated_bytes.all.freed"), 1024 + 3 * static_cast<std::int64_t>(kMiB));
  machine->reset_accumulated_statistics(0);
  EXPECT_EQ(value("allocated_bytes.all.freed"), 0);
  EXPECT_EQ(value("max_split_size"), -1);
  EXPECT_EQ(value("oversize_segments.current"), 0);
  EXPECT_EQ(machine->statistics(0).flat().size(), 9u * 3 * 4 + 2 * 4 + 6);
}

INSTANTIATE_TEST_SUITE_P(Modes, AllocatorTest,
                         ::testing::Values(Mode::kInline, Mode::kExplore, Mode::kCost),
                         [](const auto& info) {
                           return info.param == Mode::kInline    ? "inline"
                                  : info.param == Mode::kExplore ? "explore"
                                                                 : "cost";
                         });

// A block is handed out because its copy is done in virtual time; in real order the next user must
// still come after it.
TEST(Reuse, IsHeldBackByTheRealWork) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    MachineOptions options;
    options.profile = tiny_profile(8 << 20);
    options.mode = Mode::kExplore;
    options.seed = seed;
    Machine machine(options);
    const Stream compute = machine.create_stream(0), out = machine.create_stream(0);
    const Address x = machine.allocate(0, 4096, compute);
    const Address host = machine.allocate_host(4096);
    const auto fill = [&](Address at, int value) {
      const Access access{at, at + 4096, true};
      machine.launch(compute,
                     {.cost = 1000, .accesses = {&access, 1}, .body = [&machine, at, value] {
                        std::memset(machine.for_tasks(at), value, 4096);
                      }});
    };
    fill(x, 1);
    const Event written = machine.create_event();
    machine.record(written, compute);
    machine.wait(out, written);
    machine.copy(out, host, x, 4096);
    machine.record_stream(x, out);
    machine.free(x);
    machine.charge(1'000'000);
    const Address y = machine.allocate(0, 4096, compute);
    ASSERT_EQ(y, x);
    fill(y, 2);
    machine.synchronize_device(0);
    ASSERT_EQ(*reinterpret_cast<const char*>(host + 4095), 1) << "seed " << seed;
    ASSERT_TRUE(machine.races().empty());
  }
}

// The same through a segment that was given back and taken again, with and without the pages.
TEST(Reuse, OfReleasedMemoryIsHeldBackToo) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    MachineOptions options;
    options.profile = tiny_profile(24 << 20);
    options.mode = Mode::kExplore;
    options.seed = seed;
    Machine machine(options);
    const Stream a = machine.create_stream(0), b = machine.create_stream(0);
    constexpr std::uint64_t kBytes = 12 << 20;
    const Address x = machine.allocate(0, kBytes, a), host = machine.allocate_host(4096);
    const Access head{x, x + 4096, true};
    machine.launch(a, {.cost = 1000, .accesses = {&head, 1}, .body = [&machine, x] {
                         std::memset(machine.for_tasks(x), 1, 4096);
                       }});
    machine.copy(a, host, x, 4096);
    machine.free(x);
    const Address y = machine.allocate(0, 2 * kBytes, b);  // only with an empty cache
    ASSERT_EQ(y, x);
    const Access again{y, y + 4096, true};
    machine.launch(b, {.cost = 1000, .accesses = {&again, 1}, .body = [&machine, y] {
                         std::memset(machine.for_tasks(y), 2, 4096);
                       }});
    machine.synchronize_device(0);
    ASSERT_EQ(*reinterpret_cast<const char*>(host), 1) << "seed " << seed;
    ASSERT_EQ(machine.for_tasks(y)[4095], std::byte{2}) << "seed " << seed;
    ASSERT_TRUE(machine.races().empty()) << machine.races()[0].text;
  }
}

TEST(HostMemory, IsCachedAndServesAgainWhenItsStreamsAreThrough) {
  for (const Mode mode : {Mode::kInline, Mode::kExplore, Mode::kCost}) {
    MachineOptions options;
    options.profile = tiny_profile();
    options.mode = mode;
    Machine machine(options);
    const Stream stream = machine.create_stream(0);
    const Address device = machine.allocate(0, 1 << 20, stream);
    Nanoseconds start = machine.now();
    const Address host = machine.allocate_host(1 << 20);
    EXPECT_EQ(machine.now() - start, 50000 + 262144) << "4 bytes a nanosecond are pinned";
    EXPECT_TRUE(machine.is_pinned(host + 5, 100));
    EXPECT_FALSE(machine.is_pinned(host + 5, 1 << 20));
    machine.copy(stream, device, host, 1 << 20);
    machine.free_host(host);
    EXPECT_FALSE(machine.is_pinned(host, 1));
    const Address other = machine.allocate_host(1 << 20);
    EXPECT_NE(other, host) << "the copy still reads it";
    machine.charge(1'000'000);
    start = machine.now();
    EXPECT_EQ(machine.allocate_host(1 << 20), host);
    EXPECT_EQ(machine.now() - start, 300);
    EXPECT_TRUE(machine.races().empty());
  }
}

TEST(HostMemory, NeedsNoStream) {
  for (const Mode mode : {Mode::kInline, Mode::kExplore, Mode::kCost}) {
    MachineOptions options;
    options.profile = tiny_profile();
    options.mode = mode;
    Machine machine(options);
    const Address host = machine.allocate_host(100);
    machine.free_host(host);
    EXPECT_EQ(machine.allocate_host(4000), host);
    machine.free_host(host);
    machine.empty_host_cache();
    EXPECT_THAT(error_of([&] { machine.free_host(host); }), HasSubstr("freed before"));
    machine.allocate_host(100);
    EXPECT_THAT(error_of([&] { machine.allocate_host(1ull << 60); }), HasSubstr("cannot pin"));
  }
}

// Handing a pinned block out runs the copy that still reads it: the host may write at once.
TEST(HostMemory, HandingOutForcesTheRealWork) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    MachineOptions options;
    options.profile = tiny_profile();
    options.mode = Mode::kExplore;
    options.seed = seed;
    Machine machine(options);
    const Stream stream = machine.create_stream(0);
    const Address device = machine.allocate(0, 4096, stream);
    const Address host = machine.allocate_host(4096);
    std::memset(reinterpret_cast<void*>(host), 1, 4096);
    machine.copy(stream, device, host, 4096);
    machine.free_host(host);
    machine.charge(1'000'000);
    ASSERT_EQ(machine.allocate_host(4096), host);
    EXPECT_EQ(*reinterpret_cast<const unsigned char*>(host), Allocator::kPoison);
    std::memset(reinterpret_cast<void*>(host), 2, 4096);
    machine.synchronize(stream);
    ASSERT_EQ(machine.for_tasks(device)[4095], std::byte{1}) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plimsoll::sim
