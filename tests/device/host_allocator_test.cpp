#include "plimsoll/device/host_allocator.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace plimsoll::device {
namespace {

using testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;

/// Each test begins and ends with nothing held.
class HostAllocator : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override {
    uninstall_host_allocator();
    reset();
    EXPECT_EQ(host_allocator_stats().live_blocks, 0);
  }
  static void reset() {
    set_host_allocator_limit(std::nullopt);
    trim_host_allocator();
    reset_host_allocator_stats();
  }
  static c10::DataPtr take(size_t bytes) { return host_allocator()->allocate(bytes); }
};

TEST_F(HostAllocator, SizeClassesLoseLessThanAnEighth) {
  EXPECT_EQ(host_block_size(0), 64u);
  EXPECT_EQ(host_block_size(1), 64u);
  EXPECT_EQ(host_block_size(65), 128u);
  size_t last = 0;
  for (size_t n = 1; n < (size_t{1} << 40); n += n / 13 + 1) {
    for (const size_t bytes : {n, n + 1}) {
      const size_t size = host_block_size(bytes);
      ASSERT_GE(size, bytes);
      ASSERT_EQ(size % 64, 0u);
      ASSERT_EQ(host_block_size(size), size) << "a class serves itself";
      if (bytes >= 512) {
        ASSERT_LE(static_cast<double>(size), static_cast<double>(bytes) * 1.125);
      }
      ASSERT_GE(size, last);
      last = size;
    }
  }
  EXPECT_EQ(host_block_size(SIZE_MAX), host_block_size(SIZE_MAX - 5)) << "no overflow";
}

TEST_F(HostAllocator, BlocksAreAlignedAndWritable) {
  for (const size_t bytes :
       {size_t{1}, size_t{63}, size_t{4097}, kMiB - 1, kMiB, 2 * kMiB, 5 * kMiB + 3}) {
    const auto block = take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0u) << bytes;
    if (bytes >= 2 * kMiB) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % (2 * kMiB), 0u);
    }
    std::memset(block.get(), 0xab, host_block_size(bytes));
  }
}

TEST_F(HostAllocator, EmptyBlocksAreNull) {
  const auto block = take(0);
  EXPECT_EQ(block.get(), nullptr);
  EXPECT_EQ(host_allocator_stats().live_blocks, 0);
}

TEST_F(HostAllocator, AFreedBlockIsHandedOutAgain) {
  void* const first = take(3 * kMiB).get();
  EXPECT_EQ(take(3 * kMiB).get(), first);
  EXPECT_EQ(take(3 * kMiB - 100).get(), first) << "the same class";
  const auto other = take(4 * kMiB);
  EXPECT_NE(other.get(), first) << "another class";
  const auto stats = host_allocator_stats();
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.misses, 2);
  EXPECT_EQ(stats.system_allocations, 2);
}

TEST_F(HostAllocator, StatisticsAddUp) {
  auto a = take(1000);
  auto b = take(2 * kMiB);
  const auto size_a = static_cast<int64_t>(host_block_size(1000));
  const auto size_b = static_cast<int64_t>(host_block_size(2 * kMiB));
  auto stats = host_allocator_stats();
  EXPECT_EQ(stats.allocated, size_a + size_b);
  EXPECT_EQ(stats.reserved, size_a + size_b);
  EXPECT_EQ(stats.live_blocks, 2);
  b = {};
  stats = host_allocator_stats();
  EXPECT_EQ(stats.allocated, size_a);
  EXPECT_EQ(stats.reserved, size_a + size_b);
  EXPECT_EQ(stats.peak_allocated, size_a + size_b);
  EXPECT_EQ(stats.kept_blocks, 1);
  reset_host_allocator_stats();
  stats = host_allocator_stats();
  EXPECT_EQ(stats.peak_allocated, size_a);
  EXPECT_EQ(stats.peak_reserved, size_a + size_b);
  EXPECT_EQ(stats.misses, 0);
  EXPECT_EQ(trim_host_allocator(), size_b);
  stats = host_allocator_stats();
  EXPECT_EQ(stats.reserved, size_a);
  EXPECT_EQ(stats.kept_blocks, 0);
}

TEST_F(HostAllocator, TrimKeepsWhatItIsToldTo) {
  for (const size_t n : {kMiB, 2 * kMiB, 4 * kMiB}) take(n);
  // One after the other: each was freed before the next was asked for.
  EXPECT_EQ(host_allocator_stats().kept_blocks, 3);
  EXPECT_EQ(trim_host_allocator(3 * kMiB), static_cast<int64_t>(4 * kMiB))
      << "the largest goes first";
  EXPECT_EQ(host_allocator_stats().kept_blocks, 2);
  EXPECT_EQ(trim_host_allocator(1 << 30), 0);
}

TEST_F(HostAllocator, ALimitFirstReleasesThenRefuses) {
  set_host_allocator_limit(10 * kMiB);
  { const auto kept = take(6 * kMiB); }
  const auto live = take(8 * kMiB);
  auto stats = host_allocator_stats();
  EXPECT_EQ(stats.retries, 1) << "what was kept made room";
  EXPECT_EQ(stats.reserved, static_cast<int64_t>(8 * kMiB));
  try {
    take(4 * kMiB);
    FAIL() << "beyond the limit";
  } catch (const HostOutOfMemory& e) {
    EXPECT_THAT(e.what(), HasSubstr("4.0 MiB asked for"));
    EXPECT_THAT(e.what(), HasSubstr("8.0 MiB live in 1 blocks"));
    EXPECT_THAT(e.what(), HasSubstr("limit 10.0 MiB"));
    EXPECT_FALSE(e.hint().empty());
  }
  stats = host_allocator_stats();
  EXPECT_EQ(stats.ooms, 1);
  EXPECT_EQ(stats.reserved, static_cast<int64_t>(8 * kMiB));
  const auto small = take(kMiB);  // and it goes on
  EXPECT_THROW(set_host_allocator_limit(-1), Error);
}

TEST_F(HostAllocator, ARequestNoMachineCanServeIsAnErrorAndNothingIsCounted) {
  for (const size_t bytes : {size_t{1} << 48, size_t{1} << 60, SIZE_MAX}) {
    EXPECT_THROW(take(bytes), HostOutOfMemory) << bytes;
    EXPECT_EQ(host_allocator_stats().reserved, 0);
  }
  EXPECT_EQ(host_allocator_stats().ooms, 3);
}

TEST_F(HostAllocator, AnErrorPassesThroughTorch) {
  install_host_allocator();
  set_host_allocator_limit(kMiB);
  EXPECT_THROW(at::empty({64 << 20}, at::kFloat), HostOutOfMemory);
}

TEST_F(HostAllocator, TensorsFromBeforeAndAfterLiveOn) {
  at::Tensor before = at::full({kMiB}, 1.0, at::kFloat);
  install_host_allocator();
  install_host_allocator();
  EXPECT_TRUE(host_allocator_installed());
  at::Tensor during = at::full({kMiB}, 2.0, at::kFloat);
  EXPECT_EQ(host_allocator_stats().live_blocks, 1);
  uninstall_host_allocator();
  EXPECT_FALSE(host_allocator_installed());
  at::Tensor after = at::full({kMiB}, 3.0, at::kFloat);
  EXPECT_EQ(host_allocator_stats().live_blocks, 1);
  install_host_allocator();
  EXPECT_EQ((before + during + after).sum().item<double>(), 6.0 * kMiB);
  before = after = at::Tensor();
  during = at::Tensor();
  EXPECT_EQ(host_allocator_stats().live_blocks, 0);
}

TEST_F(HostAllocator, TheRawDeleterFreesAnyBlock) {
  // What torch's own allocator made before and what we made: oneDNN's glue frees through whoever
  // is installed at that moment.
  void* const theirs = c10::GetCPUAllocator()->raw_allocate(1000);
  install_host_allocator();
  void* const ours = c10::GetCPUAllocator()->raw_allocate(1000);
  std::memset(theirs, 1, 1000);
  std::memset(ours, 1, 1000);
  EXPECT_EQ(host_allocator_stats().live_blocks, 1);
  c10::GetCPUAllocator()->raw_deallocate(theirs);
  EXPECT_EQ(host_allocator_stats().live_blocks, 1);
  c10::GetCPUAllocator()->raw_deallocate(ours);
  EXPECT_EQ(host_allocator_stats().live_blocks, 0);
  c10::GetCPUAllocator()->raw_deallocate(nullptr);
}

TEST_F(HostAllocator, ATrainingLoopStopsAskingTheSystem) {
  install_host_allocator();
  const at::Tensor w = at::randn({256, 256}).requires_grad_(true);
  const auto step = [&] {
    at::Tensor x = at::randn({512, 256});
    for (int i = 0; i < 4; ++i) x = x.matmul(w).relu();
    x.square().mean().backward();
    w.mutable_grad() = at::Tensor();
  };
  for (int i = 0; i < 3; ++i) step();
  reset_host_allocator_stats();
  for (int i = 0; i < 5; ++i) step();
  const auto stats = host_allocator_stats();
  EXPECT_EQ(stats.system_allocations, 0);
  EXPECT_EQ(stats.misses, 0);
  EXPECT_GT(stats.hits, 50);
}

TEST_F(HostAllocator, ThreadsTakeAndFreeEachOthersBlocks) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 3000;
  std::mutex mutex;
  std::vector<std::pair<c10::DataPtr, size_t>> shared;
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < kRounds; ++i) {
        const size_t bytes = 1 + random() % (random() % 50 == 0 ? 3 * kMiB : 5000);
        c10::DataPtr block = take(bytes);
        // Both ends carry the size: a block handed out twice would be overwritten.
        auto* const data = static_cast<unsigned char*>(block.get());
        data[0] = data[bytes - 1] = static_cast<unsigned char>(bytes);
        const std::lock_guard lock(mutex);
        shared.emplace_back(std::move(block), bytes);
        if (shared.size() > 64) {
          std::swap(shared[random() % shared.size()], shared.back());
          const auto& [old, size] = shared.back();
          const auto* const was = static_cast<const unsigned char*>(old.get());
          if (was[0] != static_cast<unsigned char>(size) ||
              was[size - 1] != static_cast<unsigned char>(size))
            ++bad;
          shared.pop_back();
        }
        if (i % 500 == 0) trim_host_allocator();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  std::set<const void*> distinct;
  int64_t live = 0;
  for (const auto& [block, size] : shared) {
    distinct.insert(block.get());
    live += static_cast<int64_t>(host_block_size(size));
  }
  EXPECT_EQ(distinct.size(), shared.size());
  const auto stats = host_allocator_stats();
  EXPECT_EQ(stats.allocated, live);
  EXPECT_EQ(stats.live_blocks, static_cast<int64_t>(shared.size()));
  shared.clear();
  EXPECT_EQ(host_allocator_stats().allocated, 0);
  trim_host_allocator();
  EXPECT_EQ(host_allocator_stats().reserved, 0);
}

TEST_F(HostAllocator, ABlockHeldByAStaticOutlivesMain) {
  // Freed after main by the tensor's destructor; a crash then fails the whole binary.
  static c10::DataPtr held;
  EXPECT_EXIT(
      {
        install_host_allocator();
        held = take(5 * kMiB);
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace plimsoll::device
