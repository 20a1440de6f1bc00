#include "plimsoll/base/files.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Runs `body` in a child process; its exit code.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(ReadFile, GivesTheBytes) {
  const TempDir dir;
  const std::string bytes("a\0b\r\n\xff", 6);
  EXPECT_EQ(read_file(dir.write("x", bytes)), bytes);
  EXPECT_EQ(read_file(dir.write("empty", "")), "");
  EXPECT_FALSE(read_file("/proc/self/status").empty()) << "a file that says it has no bytes";
}

TEST(ReadFile, SaysWhichFileAndWhy) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { read_file(dir / "none"); }),
              AllOf(HasSubstr((dir / "none").string()), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { read_file(dir.path()); }), HasSubstr("Is a directory"));
  const fs::path pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_file(pipe); }), HasSubstr("not a regular file"));
}

TEST(WriteFileAtomic, ReplacesAndLeavesNothingElse) {
  const TempDir dir;
  write_file_atomic(dir / "x", "one");
  write_file_atomic(dir / "x", "two");
  EXPECT_EQ(read_file(dir / "x"), "two");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(WriteFileAtomic, NamesTheStepThatFailed) {
  const TempDir dir;
  EXPECT_THAT(
      error_of([&] { write_file_atomic(dir / "no/x", "1"); }),
      AllOf(HasSubstr("write"), HasSubstr((dir / "no/x").string()), HasSubstr("No such file")));
  fs::create_directory(dir / "folder");
  EXPECT_THAT(error_of([&] { write_file_atomic(dir / "folder", "1"); }),
              AllOf(HasSubstr("rename"), HasSubstr("directory")));
  EXPECT_EQ(entries(dir.path()), 1U) << "the temp is still there";
}

TEST(WriteFileAtomic, KeepsTheOldFileWhenWritingFails) {
  const TempDir dir;
  write_file_atomic(dir / "x", "old");
  const int code = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomic(dir / "x", std::string(100000, 'n'));
    } catch (const Error& error) {
      return std::string_view(error.what()).find("File too large") != std::string_view::npos ? 0
                                                                                             : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(read_file(dir / "x"), "old");
  EXPECT_EQ(entries(dir.path()), 1U) << "the temp is still there";
}

TEST(WriteFileAtomic, SaysThatTheDiskIsFull) {
  const TempDir dir;
  const int code = in_child([&] {
    // A file system of 16 pages, seen by this process alone; in it we are root.
    const std::string user = "0 " + std::to_string(::getuid()) + " 1";
    const std::string group = "0 " + std::to_string(::getgid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        !(std::ofstream("/proc/self/setgroups") << "deny").flush() ||
        !(std::ofstream("/proc/self/uid_map") << user).flush() ||
        !(std::ofstream("/proc/self/gid_map") << group).flush() ||
        ::mount("none", dir.path().c_str(), "tmpfs", 0, "size=65536") != 0) {
      return 77;
    }
    write_file_atomic(dir / "x", "old");
    try {
      write_file_atomic(dir / "x", std::string(1000000, 'n'));
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.find("No space left on device") == std::string_view::npos) return 1;
      if (what.find((dir / "x").string()) == std::string_view::npos) return 2;
      return read_file(dir / "x") == "old" && entries(dir.path()) == 1 ? 0 : 3;
    }
    return 4;
  });
  if (code == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(code, 0);
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TempDir dir;
  {
    AtomicFile file(dir / "x");
    file.write("....");
    file.write("tail");
    file.write_at(0, "head");
    EXPECT_EQ(file.size(), 8U);
    std::string back(4, ' ');
    file.read_at(2, back.data(), back.size());
    EXPECT_EQ(back, "adta");
    EXPECT_FALSE(fs::exists(dir / "x"));
    file.commit();
    EXPECT_EQ(read_file(dir / "x"), "headtail");
    EXPECT_THAT(error_of([&] { file.write("more"); }), HasSubstr("already committed"));
    EXPECT_THAT(error_of([&] { file.commit(); }), HasSubstr("already committed"));
  }
  { AtomicFile dropped(dir / "y"); }
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(AtomicFile, LeftoversOfAKilledWriterAreRemovedAndNothingElse) {
  const TempDir dir;
  const int code = in_child([&] {
    AtomicFile file(dir / "x");
    file.write("half");
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(code, 128);
  ASSERT_EQ(entries(dir.path()), 1U);
  dir.write("xy", "other");
  AtomicFile::remove_leftovers(dir / "y");
  EXPECT_EQ(entries(dir.path()), 2U);
  AtomicFile::remove_leftovers(dir / "x");
  EXPECT_EQ(entries(dir.path()), 1U);
  EXPECT_EQ(read_file(dir / "xy"), "other");
  AtomicFile::remove_leftovers(dir / "no/folder");
}

TEST(MappedFile, ShowsTheBytes) {
  const TempDir dir;
  MappedFile file(dir.write("x", "abc"));
  EXPECT_EQ(file.text(), "abc");
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "abc");
  EXPECT_EQ(file.size(), 0U);  // NOLINT: a moved-from file is empty
  moved = MappedFile(dir.write("empty", ""));
  EXPECT_EQ(moved.bytes().size(), 0U);
  EXPECT_THAT(error_of([&] { MappedFile(dir / "none"); }), HasSubstr("No such file"));
}

TEST(MappedFile, KeepsTheOldBytesWhenTheFileIsReplaced) {
  const TempDir dir;
  write_file_atomic(dir / "x", "old");
  const MappedFile file(dir / "x");
  write_file_atomic(dir / "x", "n");
  EXPECT_EQ(file.text(), "old");
}

TEST(FileLock, LetsOneInAtATime) {
  const TempDir dir;
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  int plain = 0;  // a race here would be seen by the thread sanitizer and by the sum
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const FileLock lock(dir / "lock");
        most = std::max(most.load(), ++inside);
        ++plain;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(plain, 200);
  EXPECT_EQ(entries(dir.path()), 0U);
}

TEST(FileLock, IsFreedWhenTheHolderDies) {
  const TempDir dir;
  in_child([&] {
    const FileLock lock(dir / "lock");
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  ASSERT_TRUE(fs::exists(dir / "lock"));
  const FileLock lock(dir / "lock");
}

TEST(CacheFolder, FollowsTheEnvironment) {
  const int code = in_child([] {
    ::setenv("PLIMSOLL_CACHE", "/a", 1);
    if (cache_folder() != "/a") return 1;
    ::unsetenv("PLIMSOLL_CACHE");
    ::setenv("XDG_CACHE_HOME", "/b", 1);
    if (cache_folder() != "/b/plimsoll") return 2;
    ::setenv("XDG_CACHE_HOME", "", 1);
    ::setenv("HOME", "/c", 1);
    if (cache_folder() != "/c/.cache/plimsoll") return 3;
    ::unsetenv("HOME");
    try {
      cache_folder();
    } catch (const Error& error) {
      return error.hint().empty() ? 4 : 0;
    }
    return 5;
  });
  EXPECT_EQ(code, 0);
}

TEST(TryLockFolder, OneHoldsItUntilItEnds) {
  const TempDir dir;
  {
    const FileDescriptor held = try_lock_folder(dir.path());
    ASSERT_TRUE(held);
    EXPECT_EQ(in_child([&] { return try_lock_folder(dir.path()) ? 1 : 0; }), 0);
    EXPECT_FALSE(try_lock_folder(dir.path()));
  }
  EXPECT_TRUE(try_lock_folder(dir.path()));
  EXPECT_EQ(in_child([&] {
              const FileDescriptor held = try_lock_folder(dir.path());
              return ::kill(::getpid(), SIGKILL);
            }),
            128);
  EXPECT_TRUE(try_lock_folder(dir.path())) << "the holder died";
  EXPECT_EQ(entries(dir.path()), 0U);
  EXPECT_THAT(error_of([&] { try_lock_folder(dir / "none"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { try_lock_folder(dir.write("file", "")); }),
              HasSubstr("Not a directory"));
}

TEST(ExpandPath, KnowsTheTwoFoldersARecipeMayName) {
  const int code = in_child([] {
    ::setenv("PLIMSOLL_CACHE", "/a", 1);
    ::setenv("HOME", "/c", 1);
    if (expand_path("$PLIMSOLL_CACHE/x/y") != "/a/x/y") return 1;
    if (expand_path("$PLIMSOLL_CACHE") != "/a") return 2;
    if (expand_path("~/x") != "/c/x") return 3;
    for (const char* plain : {"$PLIMSOLL_CACHED/x", "$HOME/x", "~", "~user/x", "x/~/y", "", "/x"})
      if (expand_path(plain) != plain) return 4;
    return 0;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace plimsoll
