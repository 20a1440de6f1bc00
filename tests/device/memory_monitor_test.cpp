#include "plimsoll/device/memory_monitor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "plimsoll/device/host_allocator.h"

namespace plimsoll::device {
namespace {

const c10::Device kCpu(c10::DeviceType::CPU);

TEST(MemoryMonitor, TheCpuShowsResidentPagesAndCapacity) {
  MemoryMonitor monitor(kCpu);
  const MemorySnapshot s = monitor.read();
  ASSERT_TRUE(s.reserved && s.reserved_peak && s.capacity);
  EXPECT_GT(*s.reserved, 0);
  EXPECT_GE(*s.reserved_peak, *s.reserved);
  const auto percent = s.percent(s.reserved);
  ASSERT_TRUE(percent);
  EXPECT_GT(*percent, 0);
  EXPECT_LT(*percent, 100);
}

TEST(MemoryMonitor, TheAllocatorsNumbersAreThereWhileItIsInstalled) {
  MemoryMonitor monitor(kCpu);
  ASSERT_FALSE(host_allocator_installed());
  EXPECT_FALSE(monitor.read().active || monitor.read().retries);
  EXPECT_EQ(monitor.missing(), "the caching host allocator is not installed");
  install_host_allocator();
  trim_host_allocator();
  monitor.reset_peak();
  {
    const auto block = host_allocator()->allocate(8 << 20);
    std::memset(block.get(), 1, 8 << 20);
    const MemorySnapshot s = monitor.read();
    EXPECT_EQ(s.active, 8 << 20);
    EXPECT_EQ(s.active_peak, 8 << 20);
    EXPECT_GE(*s.reserved, *s.active) << "what is in use is resident once it is written";
    EXPECT_EQ(s.ooms, 0);
    EXPECT_EQ(monitor.missing(), "");
  }
  EXPECT_EQ(monitor.read().active, 0);
  EXPECT_EQ(monitor.read().active_peak, 8 << 20);
  monitor.reset_peak();
  EXPECT_EQ(monitor.read().active_peak, 0);
  trim_host_allocator();
  uninstall_host_allocator();
}

TEST(MemoryMonitor, ADeviceThatIsNotHereHasNoNumbers) {
  MemoryMonitor monitor(c10::Device(c10::DeviceType::FPGA, 0));
  monitor.reset_peak();
  const MemorySnapshot s = monitor.read();
  EXPECT_FALSE(s.active || s.active_peak || s.reserved || s.reserved_peak || s.capacity ||
               s.retries || s.ooms);
  EXPECT_EQ(monitor.missing(), "no such device is here");
}

TEST(MemorySnapshot, AbsentIsNeitherZeroNorADivision) {
  MemorySnapshot s;
  EXPECT_EQ(s.text(s.active), "n/a");
  EXPECT_FALSE(s.percent(s.active));
  s.active = int64_t{3} << 29;
  EXPECT_EQ(s.text(s.active), "1.50 GiB");
  s.capacity = 0;
  EXPECT_FALSE(s.percent(s.active));
  EXPECT_EQ(s.text(s.active), "1.50 GiB");
  s.capacity = int64_t{6} << 30;
  EXPECT_EQ(s.text(s.active), "1.50 GiB (25.0%)");
  EXPECT_EQ(s.text(0), "0.00 GiB (0.0%)");
}

}  // namespace
}  // namespace plimsoll::device
