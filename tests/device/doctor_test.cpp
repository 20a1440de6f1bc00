#include "plimsoll/device/doctor.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"

namespace plimsoll::device {
namespace {

using testing::HasSubstr;

TEST(Doctor, TheCpuIsHealthy) {
  const DoctorReport report = run_doctor("cpu", /*measure=*/false);
  EXPECT_TRUE(report.healthy());
  EXPECT_TRUE(report.device.is_cpu());
  ASSERT_FALSE(report.devices.empty());
  EXPECT_TRUE(report.devices.front().device.is_cpu());
  EXPECT_GT(report.threads, 0);
  for (const auto& check : report.checks) {
    EXPECT_NE(check.result, CheckResult::kFail) << check.name << ": " << check.how;
    EXPECT_FALSE(check.how.empty() || check.area.empty() || check.affects.empty()) << check.name;
  }
}

TEST(Doctor, JsonHasItsThreePartsOnOneLine) {
  const DoctorReport report = run_doctor("cpu", /*measure=*/false);
  const std::string text = to_json(report);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["device"], "cpu");
  ASSERT_EQ(json["checks"].size(), report.checks.size());
  for (const auto& check : json["checks"]) {
    for (const char* key : {"name", "area", "result", "how", "affects"})
      EXPECT_TRUE(check.contains(key)) << key;
    EXPECT_THAT(check["result"].get<std::string>(), testing::AnyOf("pass", "fail", "absent"));
  }
  EXPECT_TRUE(json["measured"].contains("bf16_gflops"));
  EXPECT_TRUE(json["measured"]["bf16_gflops"].is_null()) << "not measured is absent, not 0";
  EXPECT_EQ(json["versions"]["torch"].get<std::string>().substr(0, 2), "2.");
}

TEST(Doctor, TextShowsEachCheckAndCapability) {
  const DoctorReport report = run_doctor("cpu", /*measure=*/false);
  const std::string text = to_text(report);
  for (const auto& check : report.checks) EXPECT_THAT(text, HasSubstr(check.name));
  for (const auto& [name, capability] : report.capabilities.rows())
    EXPECT_THAT(text, HasSubstr(name));
  EXPECT_THAT(text, HasSubstr("n/a")) << "what was not measured";
}

TEST(Doctor, OddBytesInADriversMessageStayJson) {
  DoctorReport report;
  report.why = "bad \xff byte \"quoted\"\n";
  report.checks.push_back({"x", "y", CheckResult::kFail, "\xc3", "z"});
  EXPECT_TRUE(nlohmann::json::accept(to_json(report)));
  EXPECT_FALSE(report.healthy());
}

TEST(Doctor, ABadDeviceIsAnErrorOfTheUser) {
  EXPECT_THROW(run_doctor("nonesuch"), UsageError);
}

}  // namespace
}  // namespace plimsoll::device
