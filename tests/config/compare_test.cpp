#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/config/config.h"
#include "tests/config/sample.h"

namespace plimsoll::config {
namespace {

using sample::Recipe;

TEST(Compare, ListsWhatDiffersAndWhetherItMay) {
  Recipe a, b;
  EXPECT_TRUE(compare(a, b).empty());
  b.train.steps = 200;
  b.train.optim.moments = "bf16";
  b.memory.budget = 1024;
  a.note = "x";
  a.train.optim.groups.resize(1);
  const auto differences = compare(a, b);
  std::vector<std::string> lines;
  for (const auto& d : differences) {
    lines.push_back(d.key + ": " + d.before + " -> " + d.after + (d.may_change ? " ok" : ""));
  }
  EXPECT_THAT(lines, testing::ElementsAre("note: \"x\" -> ", "memory.budget:  -> \"1 KiB\" ok",
                                          "train.steps: 100 -> 200 ok",
                                          "train.optim.moments: \"fp32\" -> \"bf16\"",
                                          "train.optim.groups.0.match: \".*\" -> ",
                                          "train.optim.groups.0.lr_scale: 1.0 -> "));
}

TEST(Compare, ZeroAndMinusZeroDiffer) {
  Recipe a, b;
  b.train.optim.floor = -0.0;
  EXPECT_EQ(compare(a, b).size(), 1u);
}

TEST(Nearest, CountsEditsAndSwaps) {
  const std::vector<std::string> keys = {"steps", "lr", "warmup_steps", "seq_len"};
  EXPECT_EQ(nearest("stpes", keys), "steps");
  EXPECT_EQ(nearest("step", keys), "steps");
  EXPECT_EQ(nearest("seq-len", keys), "seq_len");
  EXPECT_EQ(nearest("SEQLEN", keys), "seq_len");
  EXPECT_EQ(nearest("warmup", keys), "warmup_steps");
  EXPECT_EQ(nearest("lrr", keys), "lr");
  EXPECT_EQ(nearest("zebra", keys), "");
  EXPECT_EQ(nearest("", keys), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), keys), "");
}

}  // namespace
}  // namespace plimsoll::config
