#include "plimsoll/device/memory_monitor.h"

#include <gtest/gtest.h>

#include "plimsoll/device/host_allocator.h"

namespace plimsoll::device {
namespace {

const c10::Device kCpu(c10::DeviceType::CPU);

TEST(MemoryMonitor, TheCpuShowsResidentPagesAndCapacity) {
  MemoryMonitor monitor(kCpu);
  const MemorySnapshot s = monitor.read();
  ASSERT_TRUE(s.active && s.active_peak && s.capacity);
  EXPECT_GT(*s.active, 0);
  const auto percent = s.percent(s.active);
  ASSERT_TRUE(percent);
  EXPECT_GT(*percent, 0);
  EXPECT_LT(*percent, 100);
}

TEST(MemoryMonitor, TheAllocatorsNumbersAreThereWhileItIsInstalled) {
  MemoryMonitor monitor(kCpu);
  ASSERT_FALSE(host_allocator_installed());
  EXPECT_FALSE(monitor.read().reserved || monitor.read().retries);
  EXPECT_EQ(monitor.missing(), "the caching host allocator is not installed");
  install_host_allocator();
  trim_host_allocator();
  monitor.reset_peak();
  { const auto block = host_allocator()->allocate(8 << 20); }
  const MemorySnapshot s = monitor.read();
  EXPECT_EQ(s.reserved, 8 << 20);
  EXPECT_EQ(s.reserved_peak, 8 << 20);
  EXPECT_EQ(s.ooms, 0);
  EXPECT_EQ(monitor.missing(), "");
  trim_host_allocator();
  EXPECT_EQ(monitor.read().reserved, 0);
  EXPECT_EQ(monitor.read().reserved_peak, 8 << 20);
  monitor.reset_peak();
  EXPECT_EQ(monitor.read().reserved_peak, 0);
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
