#include "plimsoll/device/choose.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "plimsoll/base/error.h"
#include "plimsoll/device/capabilities.h"
#include "plimsoll/device/plugin.h"

namespace plimsoll::device {
namespace {

using testing::HasSubstr;

/// Sets a variable of the environment (or takes it away) until the end of the scope.
class Env {
 public:
  Env(const char* name, const char* value) : name_(name) {
    if (const char* const old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Env() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

template <class E = Error>
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

TEST(DeviceSpec, TakesApartEachForm) {
  EXPECT_EQ(parse_device_spec("auto").name, "auto");
  EXPECT_EQ(parse_device_spec("cpu:0").index, 0);
  const DeviceSpec spec = parse_device_spec("sim:3,memory=8GiB,seed=");
  EXPECT_EQ(spec.name, "sim");
  EXPECT_EQ(spec.index, 3);
  using Options = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(spec.options, (Options{{"memory", "8GiB"}, {"seed", ""}}));
  EXPECT_EQ(parse_device_spec("sim:slow-link").options, (Options{{"profile", "slow-link"}}));
  EXPECT_FALSE(parse_device_spec("sim:slow-link").index);
}

TEST(DeviceSpec, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {{"", "no name"},
                                                       {":1", "no name"},
                                                       {"sim:", "nothing after"},
                                                       {"sim:a b", "index or a word"},
                                                       {"sim:999", "too large"},
                                                       {"sim:99999999999999999999", "too large"},
                                                       {"a b", "letters"},
                                                       {"sim,x", "not option=value"},
                                                       {"sim,=1", "not option"},
                                                       {"sim,a=1,a=2", "given twice"},
                                                       {"sim:p,profile=q", "given twice"},
                                                       {"auto,x=1", "no options"},
                                                       {"auto:1", "no index"},
                                                       {"cpu:1", "one cpu"},
                                                       {"cpu:fast", "no options"}};
  for (const auto& [text, words] : cases) {
    const std::string got = message<UsageError>([&] { parse_device_spec(text); });
    EXPECT_THAT(got, HasSubstr(words)) << text;
    EXPECT_THAT(got, HasSubstr(std::string("\"") + text + "\""));
  }
}

TEST(Choose, AutoWithoutAnAcceleratorIsTheCpuAndSaysSo) {
  const Env rank("LOCAL_RANK", nullptr);
  const Choice choice = choose("auto");
  if (!choice.device.is_cpu()) GTEST_SKIP() << "this machine has an accelerator";
  EXPECT_THAT(choice.line(), HasSubstr("device: cpu (auto: "));
  EXPECT_EQ(choose("cpu").line(), "device: cpu (asked for)");
}

TEST(Choose, TheCpuDoesNotMindRanks) {
  const Env rank("LOCAL_RANK", "3");
  EXPECT_TRUE(choose("cpu").device.is_cpu());
}

TEST(Choose, AnUnknownNameListsTheKnown) {
  const std::string got = message<UsageError>([] { choose("gpux"); });
  EXPECT_THAT(got, HasSubstr("unknown device \"gpux\""));
  EXPECT_THAT(got, HasSubstr("known here: auto, cpu"));
  EXPECT_THAT(message<UsageError>([] { choose("meta"); }), HasSubstr("unknown device"));
}

TEST(Choose, ADeviceThatIsNotHereIsNoSilentCpu) {
  // A type that torch can name; no build has devices of it.
  EXPECT_THAT(message([] { choose("fpga"); }), HasSubstr("no fpga device is here"));
}

TEST(Choose, APluginThatRegistersNothingIsAnError) {
  const Env path("PLIMSOLL_PLUGIN_PATH", PLIMSOLL_TEST_PLUGINS);
  EXPECT_THAT(message([] { choose("fakedevice"); }),
              HasSubstr("registers no device named fakedevice"));
  EXPECT_THAT(known_devices(), testing::Contains("fakedevice"));
}

TEST(Choose, QueriesOnACpuBuildNeverThrow) {
  for (int t = 0; t < static_cast<int>(c10::COMPILE_TIME_MAX_DEVICE_TYPES); ++t) {
    const auto type = static_cast<c10::DeviceType>(t);
    EXPECT_GE(device_count(type), 0);
    for (const auto& [name, capability] : declared_capabilities(c10::Device(type)).rows())
      EXPECT_FALSE(capability.how.empty()) << name;
    if (device_count(type) == 0) probe_capabilities(c10::Device(type));
  }
  EXPECT_TRUE(probe_capabilities(c10::Device(c10::kCPU)).backward.yes());
}

TEST(Plugin, ErrorsNameTheFileAndTheReason) {
  EXPECT_THAT(message([] { load_plugin("/nonexistent/libx.so"); }),
              HasSubstr("/nonexistent/libx.so: no such file"));
  const auto file = std::filesystem::temp_directory_path() /
                    ("plimsoll-not-a-library-" + std::to_string(getpid()));
  std::ofstream(file) << "not a library";
  EXPECT_THAT(message([&] { load_plugin(file.string()); }), HasSubstr("cannot be loaded: "));
  std::filesystem::remove(file);
}

TEST(Plugin, OptionsGoToTheBackend) {
  const std::string path = PLIMSOLL_TEST_PLUGINS "/libplimsoll_fakedevice.so";
  load_plugin(path);
  load_plugin(path, {{"speed", "fast"}});
  EXPECT_THAT(message<UsageError>([&] {
                load_plugin(path, {{"speed", "slow"}});
              }),
              HasSubstr("speed=slow: fast is the only speed"));
  EXPECT_THAT(message<UsageError>([&] {
                load_plugin(path, {{"colour", "red"}});
              }),
              HasSubstr("no such option"));
}

TEST(Plugin, OurOwnBaseLibraryIsNone) {
  EXPECT_THAT(plugins_found(), testing::Not(testing::Contains("base")));
  EXPECT_FALSE(find_plugin("base"));
}

TEST(LocalRank, ThreeDistinctErrors) {
  {
    const Env rank("LOCAL_RANK", nullptr);
    EXPECT_FALSE(has_local_rank());
    EXPECT_EQ(message([] { local_rank(); }), "LOCAL_RANK is not set");
  }
  for (const char* text : {"", "x", "1.5", "2 ", "99999999999"}) {
    const Env rank("LOCAL_RANK", text);
    EXPECT_THAT(message([] { local_rank(); }), HasSubstr("is not an integer")) << text;
  }
  {
    const Env rank("LOCAL_RANK", "-1");
    EXPECT_EQ(message([] { local_rank(); }), "LOCAL_RANK=-1 is negative");
  }
  const Env rank("LOCAL_RANK", "7");
  EXPECT_EQ(local_rank(), 7);
}

TEST(LocalRank, OneVisibleDeviceIsIndexZeroWhateverTheRank) {
  EXPECT_EQ(local_device_index(3, 1, "x"), 0);
  EXPECT_EQ(local_device_index(3, 4, "x"), 3);
  EXPECT_THAT(message([] { local_device_index(4, 4, "x"); }),
              HasSubstr("local rank 4 has no device: 4 x devices"));
  EXPECT_THAT(message([] { local_device_index(0, 0, "x"); }), HasSubstr("no x device is visible"));
}

}  // namespace
}  // namespace plimsoll::device
