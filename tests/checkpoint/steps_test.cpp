#include "plimsoll/checkpoint/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "tests/checkpoint/sample_folder.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Steps, ListsOnlyCompleteSteps) {
  const TemporaryFolder root;
  EXPECT_TRUE(list_steps(root / "none").empty());
  EXPECT_FALSE(latest(root.path()));
  for (const int step : {100, 9, 20}) write_sample(root.path(), step, 1);
  write_sample(root.path(), 500, 1);
  fs::remove(root / "step-500" / "DONE");
  fs::create_directories(root / "step-600");
  fs::create_directories(root / "step-700.tmp-1");
  fs::create_directories(root / "step-0800");
  fs::copy(root / "step-100", root / "step-900", fs::copy_options::recursive);  // says step 100
  spill(root / "step-1000", "a file");
  EXPECT_THAT(list_steps(root.path()), ElementsAre(9, 20, 100));
  EXPECT_EQ(latest(root.path()), 100);
}

TEST(Steps, SurveySaysWhyTheOthersCannotBeUsed) {
  const TemporaryFolder root;
  write_sample(root.path(), 3, 1);
  write_sample(root.path(), 5, 1);
  fs::remove(root / "step-5" / "DONE");
  fs::copy(root / "step-3", root / "step-9", fs::copy_options::recursive);
  const Survey found = survey(root.path());
  EXPECT_THAT(found.complete, ElementsAre(3));
  ASSERT_EQ(found.unusable.size(), 2U);
  EXPECT_EQ(found.unusable[0].step, 5);
  EXPECT_THAT(found.unusable[0].why, HasSubstr("DONE"));
  EXPECT_EQ(found.unusable[1].step, 9);
  EXPECT_THAT(found.unusable[1].why, HasSubstr("holds step 3"));
  spill(root / "file", "");
  EXPECT_THAT(error_of([&] { survey(root / "file"); }), HasSubstr("Not a directory"));
}

TEST(Prune, KeepsTheNewestCompleteOnes) {
  const TemporaryFolder root;
  for (int step = 1; step <= 5; ++step) write_sample(root.path(), step, 1);
  fs::remove(root / "step-5" / "DONE");
  EXPECT_TRUE(prune(root.path(), 0).removed.empty());
  EXPECT_THAT(prune(root.path(), 2).removed, ElementsAre(1, 2));
  EXPECT_THAT(list_steps(root.path()), ElementsAre(3, 4));
  EXPECT_TRUE(fs::exists(root / "step-5"));  // damaged, and newer: a person should look
  EXPECT_THAT(prune(root.path(), 1).removed, ElementsAre(3));
  EXPECT_TRUE(prune(root.path(), 1).removed.empty());
  EXPECT_EQ(latest(root.path()), 4);
  EXPECT_THROW(prune(root.path(), -1), UsageError);
  EXPECT_TRUE(prune(root / "none", 1).removed.empty());
}

TEST(Prune, RemovesStaleFoldersButNotOnesInUse) {
  const TemporaryFolder root;
  fs::create_directories(root / "step-7.tmp-999999");
  spill(root / "step-7.tmp-999999" / "model.safetensors", "half");
  fs::create_directories(root / "notes.tmp-1");
  std::vector<std::string> removed;
  write_sample(root.path(), 8, 1, [&](std::string_view point) {
    if (point == "before done") removed = remove_stale(root.path());
  });
  EXPECT_THAT(removed, ElementsAre("step-7.tmp-999999"));
  expect_whole(root.path(), 8, 1);
  EXPECT_TRUE(fs::exists(root / "notes.tmp-1"));
}

}  // namespace
}  // namespace plimsoll::checkpoint
