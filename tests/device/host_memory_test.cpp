#include "plimsoll/device/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace plimsoll::device {
namespace {

namespace fs = std::filesystem;

/// A folder that stands for "/".
class FakeRoot : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plimsoll-root-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST(HostMemory, ReadsThisMachine) {
  const HostMemory m = host_memory();
  ASSERT_TRUE(m.resident && m.peak_resident && m.total && m.available && m.capacity());
  EXPECT_GT(*m.resident, 1 << 20);
  EXPECT_GE(*m.peak_resident, *m.resident / 2);
  EXPECT_GT(*m.total, *m.available / 2);
  EXPECT_LE(*m.capacity(), *m.total);
}

TEST(HostMemory, ResidentFollowsTouchedPagesAndThePeakStays) {
  constexpr size_t kBytes = 64 << 20;
  const int64_t before = *host_memory().resident;
  void* const block =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  const int64_t during = *host_memory().resident;
  munmap(block, kBytes);
  EXPECT_GT(during, before + int64_t{kBytes} / 2);
  EXPECT_GE(*host_memory().peak_resident, during - (4 << 20));
  if (!reset_peak_resident()) GTEST_SKIP() << "this kernel does not reset the peak";
  EXPECT_LT(*host_memory().peak_resident, during);
}

TEST_F(FakeRoot, NothingThereIsAbsentNotZero) {
  const HostMemory m = host_memory(root_);
  EXPECT_FALSE(m.resident || m.peak_resident || m.total || m.available || m.container_limit);
  EXPECT_FALSE(m.capacity());
}

TEST_F(FakeRoot, DamagedFilesAreAbsent) {
  put("/proc/self/status", "VmRSS:\t  many kB\nVmHWM:\t-5 kB\n");
  put("/proc/meminfo", "MemTotal:\nMemAvailable: 99999999999999999999 kB\n");
  const HostMemory m = host_memory(root_);
  EXPECT_FALSE(m.resident || m.peak_resident || m.total || m.available);
}

TEST_F(FakeRoot, Version2TakesTheTightestOfTheGroupsAround) {
  put("/proc/self/cgroup", "0::/a/b/c\n");
  put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  EXPECT_FALSE(container_memory_limit(root_));
  put("/sys/fs/cgroup/a/memory.max", "1000\n");
  EXPECT_EQ(container_memory_limit(root_), 1000);
  put("/sys/fs/cgroup/a/b/memory.max", "3000\n");
  EXPECT_EQ(container_memory_limit(root_), 1000);
  put("/sys/fs/cgroup/memory.max", "500\n");  // seen from inside a container: the root is ours
  EXPECT_EQ(container_memory_limit(root_), 500);
}

TEST_F(FakeRoot, Version1KnowsNoLimitByAHugeNumber) {
  put("/proc/self/cgroup", "7:cpu,cpuacct:/x\n6:hugetlb,memory:/job\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(container_memory_limit(root_));
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(container_memory_limit(root_), int64_t{1} << 31);
}

TEST_F(FakeRoot, CapacityIsTheSmaller) {
  put("/proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\n");
  EXPECT_EQ(host_memory(root_).capacity(), 1 << 20);
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(host_memory(root_).capacity(), 4096);
}

}  // namespace
}  // namespace plimsoll::device
