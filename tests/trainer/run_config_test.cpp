#include "plimsoll/trainer/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/config/config.h"
#include "plimsoll/optim/adamw.h"
#include "plimsoll/trainer/session.h"
#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll::trainer {
namespace {

using plimsoll::testing::error_of;
using plimsoll::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

const fs::path kRecipes = fs::path(PLIMSOLL_SOURCE_DIR) / "recipes";
const std::string kData = "[data]\nfiles = [\"a.txt\"]\ntokenizer = \"t\"\n";

std::string error_of_recipe(const std::string& text, const std::vector<std::string>& sets = {}) {
  TempDir folder;
  const std::string path = folder.write("r.toml", text);
  return error_of([&] { read_recipe(path, sets); });
}

TEST(Recipes, AllOfThemBuildTheirModelWithMomentsOnTheMetaDevice) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRecipes)) {
    if (entry.path().extension() != ".toml") continue;
    const std::string name = entry.path().stem().string();
    names.push_back(name);
    const RunConfig c = read_recipe(entry.path(), {});
    EXPECT_EQ(c.run.name, name);
    model::Decoder d = build_decoder(c, c10::kMeta, at::kBFloat16);
    const optim::AdamW optimizer(model::parameters(d), c.optim);
    int64_t moments = 0, parameters = 0;
    for (const auto& [key, tensor] : optimizer.state()) {
      if (key == "step") continue;
      moments += tensor.numel();
      EXPECT_EQ(tensor.scalar_type(), c.optim.moments == "bf16" ? at::kBFloat16 : at::kFloat);
    }
    for (const model::Parameter* p : model::parameters(d)) parameters += p->master.numel();
    EXPECT_EQ(moments, 2 * parameters) << name;
    EXPECT_EQ(parameters, d.config.parameter_count()) << name;
  }
  for (const char* name : {"llama3_debug", "qwen3_debug", "llama3_1b", "llama3_8b", "qwen3_0_6b"}) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
}

TEST(Recipes, TheBigOnesHaveTheirPublishedSizes) {
  auto count = [](const char* name) {
    return read_recipe(kRecipes / (std::string(name) + ".toml"), {})
        .model.resolve()
        .parameter_count();
  };
  EXPECT_EQ(count("llama3_8b"), 8'030'261'248);
  EXPECT_EQ(count("qwen3_0_6b"), 596'049'920);
  const RunConfig big = read_recipe(kRecipes / "llama3_8b.toml", {});
  EXPECT_EQ(big.optim.moments, "bf16");
  EXPECT_EQ(big.train.gradients, "bf16");
}

TEST(Recipes, SurviveBeingWrittenAndReadAgain) {
  TempDir folder;
  for (const auto& entry : fs::directory_iterator(kRecipes)) {
    if (entry.path().extension() != ".toml") continue;
    const RunConfig c = read_recipe(entry.path(), {"run.dir=runs/x"});
    const RunConfig again = read_recipe(folder.write("config.toml", config::to_toml(c)), {});
    EXPECT_TRUE(config::compare(c, again).empty()) << entry.path();
  }
}

TEST(Recipe, UnknownKeysNameTheNearestAndTheLine) {
  EXPECT_THAT(error_of_recipe(kData + "[train]\nsteps = 3\ntokens_per_bach = 64\n"),
              AllOf(HasSubstr("r.toml:6"), HasSubstr("train.tokens_per_bach"),
                    HasSubstr("train.tokens_per_batch?")));
  EXPECT_THAT(error_of_recipe(kData + "[optin]\nlr = 1\n"),
              AllOf(HasSubstr("r.toml:4"), HasSubstr("optim?")));
  EXPECT_THAT(error_of_recipe(kData, {"optim.learnrate=3"}), HasSubstr("optim.learnrate"));
}

TEST(Recipe, AllProblemsComeAtOnce) {
  const std::string message = error_of_recipe(
      "[model]\nlayer = 3\nheads = 5\nkv_heads = 2\n"
      "[train]\nsteps = 0\ntokens_per_batch = 64\ntokens_per_step = 100\n"
      "[optim]\nlr = nan\n[checkpoint]\non_error = \"ignore\"\n",
      {"run.seed=-1"});
  for (const char* part :
       {"model.layer;", "model.layers?", "train.steps = 0", "optim.lr = nan", "checkpoint.on_error",
        "run.seed = -1", "data.files", "data.tokenizer"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(Recipe, WhatGoesOverSeveralKeysIsChecked) {
  EXPECT_THAT(error_of_recipe(kData + "[train]\ntokens_per_batch = 64\ntokens_per_step = 100\n"),
              AllOf(HasSubstr("train.tokens_per_step"), HasSubstr("100"), HasSubstr("64")));
  EXPECT_THAT(error_of_recipe(kData + "[model]\nheads = 5\nkv_heads = 2\n"),
              AllOf(HasSubstr("heads = 5"), HasSubstr("kv_heads = 2")));
}

TEST(Recipe, SetsComeLastAndTheNameIsTheFiles) {
  TempDir folder;
  const std::string path = folder.write("my_run.toml", kData + "[train]\nsteps = 3\n");
  const RunConfig c = read_recipe(path, {"train.steps=4", "train.steps=5", "optim.lr=1e-3"});
  EXPECT_EQ(c.train.steps, 5);
  EXPECT_EQ(c.optim.lr, 1e-3);
  EXPECT_EQ(c.run.name, "my_run");
  EXPECT_EQ(read_recipe(path, {"run.name=other"}).run.name, "other");
}

TEST(Recipe, StepsAreOfTheOptimizer) {
  TrainSection t;
  t.tokens_per_batch = 64;
  EXPECT_EQ(t.batches_per_step(), 1);
  t.tokens_per_step = 256;
  EXPECT_EQ(t.batches_per_step(), 4);
}

}  // namespace
}  // namespace plimsoll::trainer
