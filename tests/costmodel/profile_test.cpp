#include "plimsoll/costmodel/profile.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "plimsoll/base/files.h"
#include "tests/expect_error.h"

namespace plimsoll::costmodel {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

std::string with(const std::string& before, const std::string& after) {
  std::string text = read_file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "profiles/laptop.toml");
  const auto at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

TEST(Profile, TheBuiltInOnesAreWhatTheirFilesSay) {
  EXPECT_THAT(builtin_profile_names(),
              ::testing::ElementsAre("h200-pcie5", "a100-pcie4", "laptop"));
  for (const auto& name : builtin_profile_names()) {
    const Profile profile = load_profile(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.capacity, 1u << 30);
    EXPECT_GT(profile.peak_flops("bf16"), profile.peak_flops("fp32"));
    const Profile by_path =
        load_profile(std::string(PLIMSOLL_SOURCE_DIR) + "/profiles/" + name + ".toml");
    EXPECT_EQ(by_path.capacity, profile.capacity);
    EXPECT_EQ(by_path.link_out, profile.link_out);
  }
  EXPECT_EQ(load_profile("h200-pcie5").capacity, 139ull << 30);
  EXPECT_EQ(load_profile("h200-pcie5").peak_flops("bf16"), 989e12);
  EXPECT_EQ(load_profile("laptop").copy_lanes, 1);
}

TEST(Profile, EachFigureHasASource) {
  for (const auto& name : builtin_profile_names()) {
    const std::string text =
        read_file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "profiles" / (name + ".toml"));
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      if (line.find(" = ") == std::string::npos || line.starts_with('#')) continue;
      EXPECT_NE(line.find(" # "), std::string::npos) << name << ": " << line;
    }
  }
}

TEST(Profile, ADtypeWithoutARowIsComputedAsFp32) {
  EXPECT_EQ(load_profile("laptop").peak_flops("int64"), 8e12);
}

TEST(Profile, BadOnesAreOneClearError) {
  const std::pair<std::string, std::string> cases[] = {
      {with("copy_lanes = 1", "copy_lanes = 3"), "whole number from 1 to 2"},
      {with("copy_lanes = 1", "#"), "link.copy_lanes is missing"},
      {with("capacity = \"6 GiB\"", "capacity = \"6 Gobs\""), "device.capacity"},
      {with("capacity = \"6 GiB\"", "capacity = 6"), "must be a text"},
      {with("launch = 5_000", "launch = 5.5"), "whole nanoseconds"},
      {with("launch = 5_000", "launch = -1"), "device.launch = -1 must be at least 0"},
      {with("fp32 = 8e12", "fp32 = 0"), "device.flops.fp32 = 0 must be above 0"},
      {with("fp32 = 8e12", "#"), "device.flops.fp32 is missing"},
      {with("in = 6e9", "in = 'fast'"), "link.in must be a number"},
      {with("in = 6e9", "in = nan"), "link.in must be a number"},
      {with("[host]", "[host]\nmood = 1"), "host.mood is not a key of a profile"},
      {with("[host]", "[hosts]"), "host is missing"},
      {with("[host]", "[host"), "p.toml:"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(error_of([&] { parse_profile(text, "p.toml"); }),
                ::testing::AllOf(HasSubstr("p.toml:"), HasSubstr(expected)));
  EXPECT_THAT(error_of([] { load_profile("h300"); }), HasSubstr("h300"));
  EXPECT_THAT(error_of([] { load_profile("/nowhere/x.toml"); }), HasSubstr("/nowhere/x.toml"));
}

TEST(Cost, AKernelIsBoundByArithmeticOrByMemory) {
  const Profile laptop = load_profile("laptop");
  EXPECT_EQ(kernel_cost(laptop, 8e9, "fp32", 1), 5000 + 1'000'000);
  EXPECT_EQ(kernel_cost(laptop, 8e9, "bf16", 1), 5000 + 250'000);
  EXPECT_EQ(kernel_cost(laptop, 1, "fp32", 256e6), 5000 + 1'000'000);
  EXPECT_EQ(kernel_cost(laptop, 0, "fp32", 0), 5000);
}

TEST(Cost, DurationsAreRoundedToTheNearest) {
  EXPECT_EQ(duration(100000, 10e9), 10000);
  EXPECT_EQ(duration(14, 10e9), 1);
  EXPECT_EQ(duration(16, 10e9), 2);
  EXPECT_EQ(duration(0, 10e9), 0);
}

}  // namespace
}  // namespace plimsoll::costmodel
