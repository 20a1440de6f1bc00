#include "plimsoll/optim/config.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"

namespace plimsoll::optim {
namespace {

const std::vector<std::string> kNames = {"tok_embeddings.weight", "layers.0.attention.wo.weight",
                                         "layers.0.ffn_norm.weight", "norm.weight"};

TEST(Groups, FirstMatchWinsAndEachNameHasOneGroup) {
  OptimConfig c;
  c.groups = {{.pattern = "norm", .weight_decay = 0.0}, {.pattern = "^layers", .lr = 1e-5}};
  std::vector<Group> groups = assign_groups(c, kNames);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].members, (std::vector<size_t>{2, 3}));
  EXPECT_EQ(groups[0].hyper.weight_decay, 0.0);
  EXPECT_EQ(groups[0].hyper.lr, c.lr);
  EXPECT_EQ(groups[1].members, (std::vector<size_t>{1}));
  EXPECT_EQ(groups[1].hyper.lr, 1e-5);
  EXPECT_EQ(groups[2].members, (std::vector<size_t>{0}));
}

TEST(Groups, APatternThatMatchesNothingIsAnError) {
  OptimConfig c;
  c.groups = {{.pattern = "bias$"}};
  try {
    assign_groups(c, kNames);
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("bias$"), std::string::npos);
  }
}

TEST(OptimConfig, RefusesWhatCannotTrain) {
  for (const char* set : {"lr=nan", "lr=-1", "beta1=1.0", "eps=0", "max_norm=-1", "moments=fp16",
                          "schedule.decay=step"}) {
    OptimConfig c;
    EXPECT_THROW(config::apply_sets({set}, c), UsageError) << set;
  }
  OptimConfig c;
  c.groups = {{.pattern = "(unclosed"}};
  EXPECT_THROW(config::validate(c), UsageError);
}

}  // namespace
}  // namespace plimsoll::optim
