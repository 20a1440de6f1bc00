#include "plimsoll/model/config.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"

namespace plimsoll::model {
namespace {

TEST(Presets, HaveTheParameterCountsOfTheTables) {
  EXPECT_EQ(preset("llama3", "debugmodel").parameter_count(), 6'163'712);
  EXPECT_EQ(preset("qwen3", "0.6B").parameter_count(), 596'049'920);
  EXPECT_EQ(preset("llama3", "1B").parameter_count(), 1'235'814'400);
  EXPECT_EQ(preset("llama3", "8B").parameter_count(), 8'030'261'248);
  EXPECT_EQ(preset("llama3", "70B").parameter_count(), 70'553'706'496);
  EXPECT_EQ(preset("qwen3", "8B").parameter_count(), 8'190'735'360);
}

TEST(Presets, AllResolve) {
  for (const char* architecture : {"llama3", "qwen3"}) {
    for (const std::string& flavor : flavors(architecture)) {
      EXPECT_NO_THROW(check(preset(architecture, flavor))) << architecture << " " << flavor;
    }
  }
}

TEST(Presets, UnknownFlavorListsTheKnown) {
  try {
    preset("llama3", "9B");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("9B"), std::string::npos);
    EXPECT_NE(e.hint().find("debugmodel"), std::string::npos);
  }
}

TEST(ModelConfig, FilledHasEveryNumberAndResolvesToTheSame) {
  for (const char* architecture : {"llama3", "qwen3"}) {
    ModelConfig c;
    c.architecture = architecture;
    c.ffn = 96;
    const ModelConfig whole = c.filled();
    EXPECT_EQ(config::to_toml(whole).find("is not set"), std::string::npos);
    EXPECT_EQ(whole.ffn, 96);
    EXPECT_EQ(whole.dim, c.resolve().dim);
    EXPECT_EQ(whole.rope_theta, c.resolve().rope_theta);
    EXPECT_EQ(whole.resolve().parameter_count(), c.resolve().parameter_count());
    EXPECT_TRUE(config::compare(whole, whole.filled()).empty());
  }
}

TEST(ModelConfig, HeadsMustDivide) {
  ModelConfig c;
  try {
    config::apply_sets({"heads=16", "kv_heads=3"}, c);
    FAIL();
  } catch (const UsageError& e) {
    std::string what = e.what();
    EXPECT_NE(what.find("16"), std::string::npos) << what;
    EXPECT_NE(what.find("kv_heads = 3"), std::string::npos) << what;
  }
}

TEST(ModelConfig, OverridesThePreset) {
  ModelConfig c;
  config::apply_sets({"flavor=8B", "layers=2", "tied=true"}, c);
  EXPECT_EQ(c.resolve().layers, 2);
  EXPECT_EQ(c.resolve().dim, 4096);
  EXPECT_TRUE(c.resolve().tied);
}

}  // namespace
}  // namespace plimsoll::model
