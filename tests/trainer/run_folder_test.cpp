#include "plimsoll/trainer/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/folder.h"
#include "plimsoll/checkpoint/steps.h"
#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll::trainer {
namespace {

using plimsoll::testing::error_of;
using plimsoll::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

const Resume kAuto{.kind = Resume::Kind::kAuto};

Resume at_step(int64_t step) {
  return {.kind = Resume::Kind::kStep, .step = step};
}

// Works in a folder of its own, as fresh runs are named relative to where one stands.
struct RunFolders : ::testing::Test {
  TempDir folder;
  fs::path before = fs::current_path();

  RunFolders() { fs::current_path(folder.path()); }
  ~RunFolders() override { fs::current_path(before); }

  static void save(const fs::path& run, int64_t step) {
    const float value = 1;
    const std::vector<checkpoint::TensorView> tensors = {
        {.name = "x", .shape = {1}, .data = &value, .bytes = sizeof(value)}};
    checkpoint::write_folder(run / "checkpoints", step, {{"model", tensors}}, {});
  }

  static std::string hint_of(const std::string& dir, const Resume& resume) {
    try {
      open_run_folder(dir, "x", resume);
    } catch (const UsageError& e) {
      return e.hint();
    }
    ADD_FAILURE() << "no UsageError";
    return {};
  }
};

TEST_F(RunFolders, FreshOnesAreNumbered) {
  EXPECT_EQ(open_run_folder("", "a", {}).path, "runs/a-1");
  EXPECT_EQ(open_run_folder("", "a", {}).path, "runs/a-2");
  EXPECT_EQ(open_run_folder("", "b", {}).path, "runs/b-1");
  // Names that only look alike do not count; a gap is not filled, so that newer is higher.
  for (const char* name : {"a-x", "a-9z", "a--3", "a", "a-b-7"}) {
    fs::create_directories(fs::path("runs") / name);
  }
  fs::remove("runs/a-1");
  EXPECT_EQ(open_run_folder("", "a", {}).path, "runs/a-3");
  fs::create_directories("runs/a-40");
  EXPECT_EQ(open_run_folder("", "a", {}).path, "runs/a-41");
  EXPECT_TRUE(fs::is_directory("runs/a-41"));
}

TEST_F(RunFolders, AnotherRunsFolderIsRefusedWithTheWayOut) {
  for (const char* trace : {"config.toml", "metrics.jsonl"}) {
    fs::create_directories("mine");
    folder.write(std::string("mine/") + trace, "");
    EXPECT_THAT(error_of([] { open_run_folder("mine", "x", {}); }),
                AllOf(HasSubstr("mine"), HasSubstr("already holds a run")));
    EXPECT_THAT(hint_of("mine", {}), AllOf(HasSubstr("--resume auto"), HasSubstr("run.dir")));
    EXPECT_THROW(check_run_folder("mine", {}), UsageError);
    EXPECT_NO_THROW(check_run_folder("mine", kAuto));
    fs::remove_all("mine");
  }
  // A folder with other things in it is none.
  fs::create_directories("mine/other");
  EXPECT_EQ(open_run_folder("mine", "x", {}).path, "mine");
}

TEST_F(RunFolders, CheckingCreatesNothing) {
  EXPECT_NO_THROW(check_run_folder("new", {}));
  EXPECT_NO_THROW(check_run_folder("new", kAuto));
  EXPECT_NO_THROW(check_run_folder("", {}));
  EXPECT_THROW(check_run_folder("new", at_step(1)), UsageError);
  EXPECT_FALSE(fs::exists("new"));
  EXPECT_FALSE(fs::exists("runs"));
}

TEST_F(RunFolders, AFileIsRefused) {
  folder.write("file", "");
  EXPECT_THAT(error_of([] { open_run_folder("file", "x", {}); }),
              AllOf(HasSubstr("run.dir"), HasSubstr("file"), HasSubstr("is a file")));
}

TEST_F(RunFolders, AStepThatIsNotThereListsThoseThatAre) {
  save("r", 3);
  save("r", 12);
  save("r", 20);
  fs::remove("r/checkpoints/step-20/DONE");
  EXPECT_THAT(error_of([] { open_run_folder("r", "x", at_step(7)); }),
              AllOf(HasSubstr("step 7"), HasSubstr("checkpoints")));
  EXPECT_THAT(hint_of("r", at_step(7)), HasSubstr("3, 12"));
  EXPECT_THAT(hint_of("r", at_step(20)), Not(HasSubstr("20"))) << "not complete";
  EXPECT_THAT(error_of([] { open_run_folder("r", "x", at_step(20)); }), HasSubstr("DONE"));
  EXPECT_EQ(open_run_folder("r", "x", at_step(3)).resume_step, 3);
  EXPECT_THAT(hint_of("none", at_step(7)), HasSubstr("no complete one"));
  EXPECT_THAT(hint_of("", at_step(7)), HasSubstr("run.dir"));
}

TEST_F(RunFolders, AutoTakesTheNewestCompleteCheckpoint) {
  save("r", 3);
  save("r", 12);
  save("r", 20);
  fs::remove("r/checkpoints/step-20/DONE");
  EXPECT_EQ(open_run_folder("r", "x", kAuto).resume_step, 12);
  EXPECT_EQ(open_run_folder("empty", "x", kAuto).resume_step, std::nullopt);
  EXPECT_TRUE(fs::is_directory("empty"));
}

TEST_F(RunFolders, WhatCannotBeUsedIsPassedOverAloud) {
  save("r", 3);
  save("r", 12);
  fs::resize_file("r/checkpoints/step-12/model.safetensors", 20);
  const RunFolder back = open_run_folder("r", "x", kAuto);
  EXPECT_EQ(back.resume_step, 3);
  EXPECT_THAT(back.notes, ElementsAre(AllOf(HasSubstr("step 12 is passed over"),
                                            HasSubstr("model.safetensors"))));
  EXPECT_THAT(error_of([] { choose_checkpoint("r/checkpoints", at_step(12)); }),
              HasSubstr("model.safetensors"));
  EXPECT_THAT(set_aside_later("r/checkpoints", 3), ElementsAre(12));
  EXPECT_TRUE(fs::exists("r/checkpoints/abandoned-step-12"));
}

TEST_F(RunFolders, DamageIsNoReasonToStartOver) {
  save("r", 12);
  fs::remove("r/checkpoints/step-12/state.json");
  for (const char* dir : {"r", ""}) {
    if (!*dir) {
      fs::create_directories("runs");
      fs::rename("r", "runs/x-1");
    }
    EXPECT_THAT(error_of([&] { open_run_folder(dir, "x", kAuto); }), HasSubstr("state.json"));
  }
  EXPECT_THAT(open_run_folder("new", "x", kAuto).notes,
              ElementsAre(HasSubstr("nothing to resume in new")));
}

TEST_F(RunFolders, AutoWithoutAFolderTakesTheNewestRunThatHasOne) {
  save("runs/a-1", 5);
  save("runs/a-2", 4);
  fs::create_directories("runs/a-3/checkpoints");
  const RunFolder found = open_run_folder("", "a", kAuto);
  EXPECT_EQ(found.path, "runs/a-2");
  EXPECT_EQ(found.resume_step, 4);
  const RunFolder fresh = open_run_folder("", "b", kAuto);
  EXPECT_EQ(fresh.path, "runs/b-1");
  EXPECT_FALSE(fresh.resume_step);
}

TEST_F(RunFolders, TwoDoNotTrainInOne) {
  save("runs/a-1", 5);
  {
    const RunFolder first = open_run_folder("runs/a-1", "a", kAuto);
    for (const char* dir : {"runs/a-1", ""}) {
      EXPECT_THAT(error_of([&] { open_run_folder(dir, "a", kAuto); }),
                  AllOf(HasSubstr("runs/a-1"), HasSubstr("another process trains there")));
    }
    EXPECT_EQ(choose_checkpoint(first.checkpoints(), kAuto).step, 5) << "reading needs no lock";
  }
  EXPECT_EQ(open_run_folder("runs/a-1", "a", kAuto).resume_step, 5);
}

TEST_F(RunFolders, LaterCheckpointsAreSetAsideUnderFreeNames) {
  for (int64_t step : {2, 4, 6}) save("r", step);
  const fs::path root = "r/checkpoints";
  EXPECT_THAT(set_aside_later(root, 2), ElementsAre(6, 4));
  EXPECT_THAT(checkpoint::list_steps(root), ElementsAre(2));
  save("r", 4);
  EXPECT_THAT(set_aside_later(root, 2), ElementsAre(4));
  for (const char* name : {"abandoned-step-6", "abandoned-step-4", "abandoned-step-4-2"}) {
    EXPECT_TRUE(fs::exists(root / name / "DONE")) << name;
  }
  EXPECT_TRUE(set_aside_later(root, 2).empty());
  EXPECT_TRUE(set_aside_later("nowhere", 2).empty());
}

TEST_F(RunFolders, OnlyRunsAreOpenedForUse) {
  EXPECT_THAT(error_of([] { require_run("nowhere"); }),
              HasSubstr("is not a folder that can be read: No such file"));
  fs::create_directories("plain");
  EXPECT_THAT(error_of([] { require_run("plain"); }), HasSubstr("holds no run"));
}

TEST(ParseResume, TakesThreeForms) {
  EXPECT_EQ(parse_resume("none").kind, Resume::Kind::kNone);
  EXPECT_EQ(parse_resume("auto").kind, Resume::Kind::kAuto);
  EXPECT_EQ(parse_resume("120").step, 120);
  for (const char* odd : {"-1", "1.5", "latest", "12x", " 3", "99999999999999999999"}) {
    EXPECT_THAT(error_of([&] { parse_resume(odd); }), HasSubstr(odd)) << odd;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
