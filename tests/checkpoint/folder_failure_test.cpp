// Crashes inside a save, full disks, folders that are read-only or vanish.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/folder.h"
#include "plimsoll/checkpoint/steps.h"
#include "tests/checkpoint/sample_folder.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

const std::vector<std::string> kPoints = {"created",     "wrote model",   "wrote optimizer",
                                          "before done", "before rename", "renamed"};

// Saves in a process of its own that is killed at `point`.
void save_and_die(const fs::path& root, std::int64_t step, float value, const std::string& point) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    write_sample(root, step, value, [&](std::string_view at) {
      if (at == point) ::kill(::getpid(), SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point;
}

TEST(Crash, LeavesTheOldOrTheNewCheckpointWhole) {
  for (const std::string& point : kPoints) {
    const TemporaryFolder root;
    write_sample(root.path(), 10, 1);
    save_and_die(root.path(), 20, 2, point);
    const bool renamed = point == "renamed";
    EXPECT_EQ(latest(root.path()), renamed ? 20 : 10) << point;
    expect_whole(root.path(), 10, 1);
    if (renamed) expect_whole(root.path(), 20, 2);
    EXPECT_EQ(remove_stale(root.path()).size(), renamed ? 0u : 1u) << point;
    write_sample(root.path(), 20, 3);
    expect_whole(root.path(), 20, 3);
    EXPECT_EQ(names_in(root.path()), (std::vector<std::string>{"step-10", "step-20"}));
  }
}

TEST(Crash, WhileReplacingAStepLeavesOneOfThem) {
  for (const std::string& point : kPoints) {
    const TemporaryFolder root;
    write_sample(root.path(), 10, 1);
    save_and_die(root.path(), 10, 2, point);
    expect_whole(root.path(), 10, point == "renamed" ? 2 : 1);
    EXPECT_EQ(remove_stale(root.path()).size(), 1u) << point;
    EXPECT_EQ(names_in(root.path()), (std::vector<std::string>{"step-10"}));
  }
}

TEST(Failure, AnErrorAtAnyPointLeavesNothingBehind) {
  for (const std::string& point : kPoints) {
    const TemporaryFolder root;
    write_sample(root.path(), 10, 1);
    EXPECT_EQ(error_of([&] {
                write_sample(root.path(), 20, 2, [&](std::string_view at) {
                  if (at == point) throw Error("stop");
                });
              }),
              "stop");
    expect_whole(root.path(), 10, 1);
    EXPECT_EQ(names_in(root.path()).size(), point == "renamed" ? 2u : 1u) << point;
  }
}

TEST(Failure, FileSizeLimit) {
  const TemporaryFolder root;
  write_sample(root.path(), 1, 1);
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight { 1 << 20, old.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::string message = error_of([&] { write_sample(root.path(), 2, 2, {}, 1'000'000); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot write"), HasSubstr("model.safetensors"),
                             HasSubstr("File too large")));
  expect_whole(root.path(), 1, 1);
  EXPECT_EQ(names_in(root.path()), (std::vector<std::string>{"step-1"}));
}

TEST(Failure, DiskFull) {
  const TemporaryFolder folder;
  const fs::path root = folder / "disk";
  fs::create_directory(root);
  if (::mount("tmpfs", root.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here";
  }
  write_sample(root, 1, 1);
  std::string hint;
  try {
    write_sample(root, 2, 2, {}, 1'000'000);
    ADD_FAILURE() << "no Error was thrown";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("cannot write"), HasSubstr("model.safetensors"),
                                HasSubstr("No space left on device")));
    hint = e.hint();
  }
  EXPECT_THAT(hint, HasSubstr("free some space"));
  expect_whole(root, 1, 1);
  EXPECT_EQ(names_in(root), (std::vector<std::string>{"step-1"}));
  write_sample(root, 3, 3);  // there is room again
  expect_whole(root, 3, 3);
  EXPECT_EQ(::umount(root.c_str()), 0);
}

// Runs `work` as a user whom permissions bind, in a child; returns the message of its Error.
template <typename Work>
std::string error_unprivileged(const Work& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string message = "no error";
    if (::geteuid() == 0 && ::setuid(65534) != 0) message = "cannot change the user";
    try {
      work();
    } catch (const Error& e) {
      message = e.what();
    }
    ::_exit(::write(ends[1], message.data(), message.size()) < 0);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  message.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, ::read(ends[0], message.data(), message.size()))));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return message;
}

TEST(Failure, ReadOnlyFolder) {
  const TemporaryFolder root;
  write_sample(root.path(), 1, 1);
  write_sample(root.path(), 2, 1);
  fs::permissions(root.path(), fs::perms(0555));
  EXPECT_THAT(
      error_unprivileged([&] { write_sample(root.path(), 3, 3); }),
      AllOf(HasSubstr("cannot create"), HasSubstr("step-3"), HasSubstr("Permission denied")));
  EXPECT_THAT(
      error_unprivileged([&] {
        const Pruned pruned = prune(root.path(), 1);
        throw Error(pruned.failures.empty() ? "none" : pruned.failures[0]);
      }),
      AllOf(HasSubstr("cannot remove"), HasSubstr("step-1"), HasSubstr("Permission denied")));
  fs::permissions(root.path(), fs::perms(0755));
  expect_whole(root.path(), 1, 1);
  expect_whole(root.path(), 2, 1);
}

TEST(Failure, FolderRemovedDuringASave) {
  for (const std::string& point : kPoints) {
    if (point == "renamed") continue;
    const TemporaryFolder folder;
    const fs::path root = folder / "run";
    const std::string message = error_of([&] {
      write_sample(root, 2, 2, [&](std::string_view at) {
        if (at == point) fs::remove_all(root);
      });
    });
    EXPECT_THAT(message, AllOf(HasSubstr("cannot"), HasSubstr("step-2"),
                               HasSubstr("No such file or directory")))
        << point;
    write_sample(root, 3, 3);  // the next one makes the folder again
    expect_whole(root, 3, 3);
  }
}

TEST(Failure, TemporaryFolderRemovedDuringASave) {
  for (const std::string& point : kPoints) {
    if (point == "renamed") continue;
    const TemporaryFolder root;
    write_sample(root.path(), 1, 1);
    const std::string temporary = fmt::format("step-2.tmp-{}", ::getpid());
    EXPECT_THAT(error_of([&] {
                  write_sample(root.path(), 2, 2, [&](std::string_view at) {
                    if (at == point) fs::remove_all(root / temporary);
                  });
                }),
                HasSubstr("No such file or directory"));
    EXPECT_EQ(latest(root.path()), 1);
  }
}

TEST(Failure, RootIsAFile) {
  const TemporaryFolder folder;
  spill(folder / "run", "a file");
  EXPECT_THAT(error_of([&] { write_sample(folder / "run", 1, 1); }), HasSubstr("run"));
  EXPECT_EQ(slurp(folder / "run"), "a file");
}

TEST(Failure, AStepThatIsAFileIsNotDestroyed) {
  const TemporaryFolder root;
  spill(root / "step-1", "mine");
  EXPECT_THAT(error_of([&] { write_sample(root.path(), 1, 1); }), HasSubstr("step-1"));
  EXPECT_EQ(slurp(root / "step-1"), "mine");
  EXPECT_EQ(names_in(root.path()), (std::vector<std::string>{"step-1"}));
}

}  // namespace
}  // namespace plimsoll::checkpoint
