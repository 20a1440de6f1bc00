// Saves that fail: full disk, read-only and removed folders. The run stops or goes on, as
// checkpoint.on_error says; earlier checkpoints stay whole.
#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>

#include "plimsoll/checkpoint/steps.h"
#include "plimsoll/trainer/saver.h"
#include "tests/expect_error.h"
#include "tests/trainer/tiny_run.h"

namespace plimsoll::trainer {
namespace {

using plimsoll::testing::error_of;
using ::testing::AllOf;
using testing::first_difference;
using ::testing::HasSubstr;
using testing::step;
using testing::TinyRun;
namespace fs = std::filesystem;

// While one lives, no file may grow beyond `bytes`: what a full disk is like, for any user.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const struct rlimit tight { bytes, old_.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &tight);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  struct rlimit old_ {};
  sighandler_t handler_;
};

constexpr rlim_t kTooSmall = 40 << 10;

void expect_whole(const fs::path& root, const checkpoint::Snapshot& staged) {
  const auto file = checkpoint::open_checkpoint(checkpoint::step_path(root, staged.step));
  std::vector<checkpoint::NamedTensor> read;
  for (const auto& t : staged.groups.at("model"))
    read.push_back({t.name, at::empty_like(t.tensor)});
  file.load_into("model", read);
  EXPECT_EQ(first_difference(staged.groups.at("model"), read), "");
}

struct FailedSave : ::testing::TestWithParam<bool> {
  TinyRun run;
  report::Console console{run.terminal()};
  std::unique_ptr<Session> session = run.session();
  fs::path root = run.folder / "c";

  std::unique_ptr<Saver> saver(const std::string& on_error, checkpoint::Gate gate = {}) {
    CheckpointSection c = run.config.checkpoint;
    c.async = GetParam();
    c.on_error = on_error;
    return std::make_unique<Saver>(c, root, console, std::nullopt, std::move(gate));
  }

  // A first checkpoint that is good.
  checkpoint::Snapshot save_one(Saver& saver) {
    step(*session);
    saver.save(*session);
    saver.finish();
    EXPECT_EQ(saver.last_saved(), 1);
    return checkpoint::stage(snapshot(*session));
  }
};

TEST_P(FailedSave, DiskFullStopsTheRun) {
  auto s = saver("stop");
  const checkpoint::Snapshot good = save_one(*s);
  step(*session);
  const std::string message = error_of([&] {
    FileSizeLimit limit(kTooSmall);
    s->save(*session);
    s->finish();
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("cannot write"), HasSubstr("step-2"), HasSubstr("File too large")));
  EXPECT_EQ(s->last_saved(), 1);
  expect_whole(root, good);
  EXPECT_EQ(checkpoint::list_steps(root), (std::vector<int64_t>{1}));
}

TEST_P(FailedSave, DiskFullIsSaidAndTheRunGoesOn) {
  auto s = saver("continue");
  const checkpoint::Snapshot good = save_one(*s);
  for (int i = 0; i < 2; ++i) {
    FileSizeLimit limit(kTooSmall);
    step(*session);
    s->save(*session);
    s->finish();
  }
  for (const char* part :
       {"checkpoint not saved", "step-2", "step-3", "File too large", "going on"})
    EXPECT_THAT(run.said, HasSubstr(part));
  EXPECT_EQ(s->last_saved(), 1);
  expect_whole(root, good);
  // There is room again.
  step(*session);
  s->save(*session);
  s->finish();
  EXPECT_EQ(s->last_saved(), 4);
  EXPECT_EQ(checkpoint::list_steps(root), (std::vector<int64_t>{1, 4}));
  expect_whole(root, checkpoint::stage(snapshot(*session)));
}

TEST_P(FailedSave, ASaveAfterAFailedOneIsStillMade) {
  // The failure of a save in the background shows at the next one, which must not be lost by it.
  auto s = saver("continue");
  save_one(*s);
  step(*session);
  {
    FileSizeLimit limit(kTooSmall);
    s->save(*session);
    s->finish();
  }
  step(*session);
  s->save(*session);
  s->finish();
  EXPECT_EQ(checkpoint::list_steps(root), (std::vector<int64_t>{1, 3}));
}

TEST_P(FailedSave, FolderRemovedMeanwhile) {
  bool remove = false;
  checkpoint::Gate gate = [&](std::string_view point) {
    if (remove && point == "before rename") fs::remove_all(root);
  };
  auto s = saver("continue", gate);
  save_one(*s);
  remove = true;
  step(*session);
  s->save(*session);
  s->finish();
  remove = false;
  EXPECT_THAT(run.said, AllOf(HasSubstr("checkpoint not saved"), HasSubstr("step-2"),
                              HasSubstr("No such file or directory")));
  step(*session);
  s->save(*session);
  s->finish();
  EXPECT_EQ(checkpoint::list_steps(root), (std::vector<int64_t>{3}));

  remove = true;
  auto strict = saver("stop", gate);
  step(*session);
  EXPECT_THAT(error_of([&] {
                strict->save(*session);
                strict->finish();
              }),
              AllOf(HasSubstr("step-4"), HasSubstr("No such file or directory")));
}

TEST_P(FailedSave, ReadOnlyFileSystem) {
  fs::create_directory(root);
  if (::mount("tmpfs", root.c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here";
  }
  {
    auto s = saver("continue");
    const checkpoint::Snapshot good = save_one(*s);
    ASSERT_EQ(::mount("tmpfs", root.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
    step(*session);
    s->save(*session);
    s->finish();
    EXPECT_THAT(run.said, AllOf(HasSubstr("checkpoint not saved"), HasSubstr("step-2"),
                                HasSubstr("Read-only file system")));
    auto strict = saver("stop");
    EXPECT_THAT(error_of([&] {
                  strict->save(*session);
                  strict->finish();
                }),
                HasSubstr("Read-only file system"));
    expect_whole(root, good);
  }
  EXPECT_EQ(::umount(root.c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, FailedSave, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "async" : "at_once");
});

TEST(Saver, SavesAStepOnceAndKnowsWhenItIsDue) {
  TinyRun run;
  report::Console console(run.terminal());
  auto session = run.session();
  int saves = 0;
  run.config.checkpoint.interval = 3;
  Saver saver(run.config.checkpoint, run.folder / "c", console, std::nullopt,
              [&](std::string_view point) { saves += point == "created"; });
  step(*session);
  saver.save(*session);
  saver.save(*session);
  saver.finish();
  EXPECT_EQ(saves, 1);
  EXPECT_TRUE(saver.due(3) && saver.due(6));
  EXPECT_FALSE(saver.due(4));
  run.config.checkpoint.interval = 0;
  EXPECT_FALSE(Saver(run.config.checkpoint, run.folder / "c", console).due(3));
}

TEST(Saver, AResumedStepIsNotWrittenAgain) {
  TinyRun run;
  run.train();
  const fs::path done = checkpoint::step_path(run.checkpoints(), 6) / "DONE";
  const auto written = fs::last_write_time(done);
  const TrainResult again = run.train("auto");
  EXPECT_EQ(fs::last_write_time(done), written);
  EXPECT_EQ(again.resumable, 6);
  EXPECT_THAT(run.said, HasSubstr("checkpoint: " + done.parent_path().string()));
}

// Loss and gradient of the last step were finite, what the update left was not.
TEST(Saver, WeightsThatAreNotFiniteStopTheRun) {
  for (const char* on_error : {"stop", "continue"}) {
    TinyRun run;
    run.config.checkpoint.on_error = on_error;
    run.config.optim.lr = 1e38;
    run.config.train.steps = 1;
    EXPECT_THAT(error_of([&] { run.train(); }),
                AllOf(HasSubstr("step 1"), HasSubstr("is not finite after the update")));
    EXPECT_TRUE(checkpoint::list_steps(run.checkpoints()).empty());
  }
}

TEST(Saver, KeepsTheNewest) {
  TinyRun run;
  run.config.checkpoint.interval = 1;
  run.config.checkpoint.keep = 2;
  run.train();
  EXPECT_EQ(checkpoint::list_steps(run.checkpoints()), (std::vector<int64_t>{5, 6}));
}

TEST(Saver, RemovesWhatAKilledProcessLeft) {
  TinyRun run;
  report::Console console(run.terminal());
  // No process has so high a number.
  fs::create_directories(run.folder / "c" / "step-5.tmp-999999999");
  const Saver saver(run.config.checkpoint, run.folder / "c", console);
  EXPECT_FALSE(fs::exists(run.folder / "c" / "step-5.tmp-999999999"));
  EXPECT_THAT(run.said, HasSubstr("step-5.tmp-999999999"));
}

// The whole run, with a disk that fills while it trains.
TEST(FullDisk, EndsOrOutlastsARun) {
  TinyRun stops;
  stops.config.checkpoint.interval = 3;
  stops.config.train.stop_after = 3;
  stops.train();
  stops.config.train.stop_after.reset();
  {
    FileSizeLimit limit(kTooSmall);
    EXPECT_THAT(error_of([&] { stops.train("auto"); }), HasSubstr("File too large"));
  }
  EXPECT_EQ(checkpoint::list_steps(stops.checkpoints()), (std::vector<int64_t>{3}));
  EXPECT_EQ(stops.train("auto").step, 6);  // from the checkpoint that stayed whole

  TinyRun outlasts;
  outlasts.config.checkpoint.interval = 2;
  outlasts.config.checkpoint.on_error = "continue";
  FileSizeLimit limit(kTooSmall);
  EXPECT_EQ(outlasts.train().step, 6);
  EXPECT_THAT(outlasts.said, AllOf(HasSubstr("step-2"), HasSubstr("step-4"), HasSubstr("step-6"),
                                   HasSubstr("checkpoint not saved")));
}

}  // namespace
}  // namespace plimsoll::trainer
