#include "plimsoll/device/peak_flops.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/device/device_name.h"

namespace plimsoll::device {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(PeakTable, TheFirstMatchWins) {
  const std::pair<const char*, double> cases[] = {
      {"NVIDIA A100-SXM4-80GB", 312e12}, {"NVIDIA H100 NVL", 835e12},
      {"NVIDIA H100 PCIe", 756e12},      {"NVIDIA H100 80GB HBM3", 989e12},
      {"NVIDIA H200", 989e12},           {"NVIDIA H20", 148e12},
      {"NVIDIA GB200", 2.5e15},          {"NVIDIA B200", 2.25e15},
      {"NVIDIA L40S", 362e12},           {"AMD Instinct MI300X", 1300e12},
      {"AMD Instinct MI250X", 191.5e12}, {"TPU v5p", 459e12}};
  for (const auto& [name, flops] : cases) EXPECT_EQ(listed_peak_flops(name), flops) << name;
}

TEST(PeakTable, AnUnknownDeviceHasNoPeak) {
  EXPECT_FALSE(listed_peak_flops("Some Other Device 9000"));
  EXPECT_FALSE(listed_peak_flops(""));
  EXPECT_FALSE(listed_peak_flops("h100")) << "case matters: names are what devices say";
  EXPECT_FALSE(peak_flops(c10::Device(c10::DeviceType::FPGA, 0), c10::kBFloat16));
}

TEST(PeakTable, EachRowHasASourceAndIsReachable) {
  ASSERT_GT(peak_table().size(), 15u);
  for (const auto& row : peak_table()) {
    EXPECT_FALSE(row.source.empty()) << row.name;
    EXPECT_EQ(listed_peak_flops(row.name), row.flops) << row.name << " is hidden by a row above it";
  }
}

TEST(PeakTable, BadTablesAreOneClearError) {
  const std::pair<const char*, const char*> cases[] = {
      {"x = ", "t.toml:1: "},
      {"x = 1", "no [[device]]"},
      {"\n[[device]]\nflops = 1.0\nsource = 's'", "t.toml:2: a device without a name"},
      {"[[device]]\nname = 'a'\nsource = 's'", "a: flops must be above zero"},
      {"[[device]]\nname = 'a'\nflops = nan\nsource = 's'", "a: flops must be above zero"},
      {"[[device]]\nname = 'a'\nflops = 1e12", "a: the figure has no source"},
      {"device = [1]", "a device is a table"}};
  for (const auto& [text, words] : cases) {
    try {
      parse_peak_table(text, "t.toml");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
  }
}

TEST(DeviceName, BackendsSayHowToAsk) {
  const c10::Device device(c10::DeviceType::FPGA, 1);
  EXPECT_FALSE(device_name(device));
  register_device_name(c10::DeviceType::FPGA,
                       [](int index) { return "Maker A100 #" + std::to_string(index); });
  EXPECT_EQ(device_name(device), "Maker A100 #1");
  EXPECT_EQ(peak_flops(device, c10::kBFloat16)->flops, 312e12);
  EXPECT_FALSE(peak_flops(device, c10::kFloat)) << "the table is of bf16";
  register_device_name(c10::DeviceType::FPGA,
                       [](int) -> std::string { throw std::runtime_error("no driver"); });
  EXPECT_FALSE(device_name(device));
}

class MeasuredPeak : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* const old = std::getenv("PLIMSOLL_CACHE")) old_ = old;
    std::string pattern = (fs::temp_directory_path() / "plimsoll-peak-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("PLIMSOLL_CACHE", folder_.c_str(), 1);
  }
  void TearDown() override {
    old_.empty() ? unsetenv("PLIMSOLL_CACHE") : setenv("PLIMSOLL_CACHE", old_.c_str(), 1);
    fs::remove_all(folder_);
  }
  std::string old_;
  fs::path folder_;
};

TEST_F(MeasuredPeak, IsKeptAndOnlyGrows) {
  const double first = measured_cpu_peak_flops(c10::kFloat);
  EXPECT_GT(first, 1e8);
  EXPECT_LT(first, 1e15);
  EXPECT_EQ(measured_cpu_peak_flops(c10::kFloat), first) << "a kept value costs no measurement";
  EXPECT_GE(remeasured_cpu_peak_flops(c10::kFloat), first) << "what was reached stays";
  std::ifstream in(folder_ / "peak_flops.json");
  const auto kept = nlohmann::json::parse(in);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_GE(kept.begin()->get<double>(), first);
  EXPECT_THAT(kept.begin().key(), HasSubstr("threads | Float"));
  const auto peak = peak_flops(c10::Device(c10::kCPU), c10::kFloat);
  ASSERT_TRUE(peak);
  EXPECT_GE(peak->flops, first);
  EXPECT_EQ(peak->source, "measured");
}

TEST_F(MeasuredPeak, ADamagedCacheIsMeasuredAgain) {
  for (const char* text : {"", "{\"cut", "[1]"}) {
    std::ofstream(folder_ / "peak_flops.json") << text;
    EXPECT_GT(measured_cpu_peak_flops(c10::kFloat), 1e8);
  }
}

TEST_F(MeasuredPeak, OtherTypesHaveNone) {
  EXPECT_THROW(measured_cpu_peak_flops(c10::kDouble), Error);
  EXPECT_THROW(remeasured_cpu_peak_flops(c10::kDouble), Error);
  EXPECT_FALSE(peak_flops(c10::Device(c10::kCPU), c10::kHalf));
}

}  // namespace
}  // namespace plimsoll::device
