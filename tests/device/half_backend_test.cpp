// A backend that does only half of what it should: everything degrades, nothing throws.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "plimsoll/base/error.h"
#include "plimsoll/device/capabilities.h"
#include "plimsoll/device/choose.h"
#include "plimsoll/device/doctor.h"
#include "plimsoll/device/memory_monitor.h"

namespace plimsoll::device {
namespace {

using testing::HasSubstr;

class HalfBackend : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("PLIMSOLL_PLUGIN_PATH", PLIMSOLL_TEST_PLUGINS, 1);
    unsetenv("LOCAL_RANK");
    first_choice() = choose("half");
  }
  static Choice& first_choice() {
    static Choice choice{c10::Device(c10::kCPU), ""};
    return choice;
  }
  static int contexts() {
    void* const library =
        dlopen(PLIMSOLL_TEST_PLUGINS "/libplimsoll_half.so", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<int (*)()>(dlsym(library, "half_contexts"))();
  }
  const c10::Device device_{c10::DeviceType::PrivateUse1, 1};
};

TEST_F(HalfBackend, ANameLoadsItsPlugin) {
  EXPECT_EQ(first_choice().device, c10::Device(c10::DeviceType::PrivateUse1, 0));
  EXPECT_THAT(first_choice().line(), HasSubstr("device: half:0 (asked for, from "));
  EXPECT_EQ(choose("half:1").device.index(), 1);
  EXPECT_THAT(known_devices(), testing::Contains("half"));
}

TEST_F(HalfBackend, AnIndexThatDoesNotExistIsAnError) {
  try {
    choose("half:2");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("half:2 does not exist: 2 devices"));
  }
}

TEST_F(HalfBackend, TheRankChoosesTheIndex) {
  setenv("LOCAL_RANK", "1", 1);
  const Choice choice = choose("half");
  setenv("LOCAL_RANK", "2", 1);
  EXPECT_THROW(choose("half"), Error);
  unsetenv("LOCAL_RANK");
  EXPECT_EQ(choice.device.index(), 1);
  EXPECT_THAT(choice.why, HasSubstr("LOCAL_RANK=1"));
}

TEST_F(HalfBackend, OptionsAreRefusedByABackendWithoutThem) {
  EXPECT_THROW(choose("half:fast"), UsageError);
  EXPECT_THROW(choose("half,speed=fast"), UsageError);
}

TEST_F(HalfBackend, AskingCreatesNoContext) {
  const int before = contexts();
  choose("auto");
  choose("half:1");
  known_devices();
  declared_capabilities(device_);
  MemoryMonitor monitor(device_);
  monitor.read();
  monitor.reset_peak();
  EXPECT_EQ(contexts(), before);
}

TEST_F(HalfBackend, StatisticsThatThrowAreAbsent) {
  MemoryMonitor monitor(device_);
  monitor.reset_peak();
  const MemorySnapshot s = monitor.read();
  EXPECT_FALSE(s.active || s.active_peak || s.reserved || s.reserved_peak);
  EXPECT_FALSE(s.capacity || s.retries || s.ooms);
  EXPECT_EQ(s.text(s.active), "n/a");
  EXPECT_EQ(monitor.missing(), "the backend's statistics fail");
  EXPECT_FALSE(monitor.name());
}

TEST_F(HalfBackend, EachMissingCapabilityHasItsReason) {
  const Capabilities c = probe_capabilities(device_);
  EXPECT_EQ(c.streams.present, false);
  EXPECT_THAT(c.streams.how, HasSubstr("same stream"));
  EXPECT_EQ(c.events.present, false);
  EXPECT_EQ(c.event_timing.present, false);
  EXPECT_EQ(c.allocator_stats.present, false);
  EXPECT_THAT(c.allocator_stats.how, HasSubstr("half has no statistics"));
  EXPECT_EQ(c.memory_info.present, false);
  EXPECT_EQ(c.pinned_host.present, false);
  EXPECT_THAT(c.pinned_host.how, HasSubstr("not on the host"));
  EXPECT_EQ(c.backward.present, false);
  EXPECT_THAT(c.backward.how, HasSubstr("hooks object"));
  for (const auto& [name, capability] : c.rows()) EXPECT_FALSE(capability.how.empty()) << name;
}

TEST_F(HalfBackend, ProbingLeavesTheCurrentDevice) {
  const c10::impl::DeviceGuardImplInterface* const impl =
      c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1);
  impl->setDevice(c10::Device(c10::DeviceType::PrivateUse1, 0));
  probe_capabilities(device_);
  EXPECT_EQ(impl->getDevice().index(), 0);
}

TEST_F(HalfBackend, TheDoctorReportsFailuresAndDoesNotThrow) {
  const DoctorReport report = run_doctor("half", /*measure=*/false);
  EXPECT_FALSE(report.healthy());
  EXPECT_THAT(to_text(report), HasSubstr("fail"));
  for (const auto& check : report.checks) {
    if (check.name == "event order") {
      EXPECT_EQ(check.result, CheckResult::kAbsent);
    }
    EXPECT_FALSE(check.how.empty()) << check.name;
  }
}

}  // namespace
}  // namespace plimsoll::device
