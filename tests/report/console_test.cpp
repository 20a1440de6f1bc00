#include "plimsoll/report/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace plimsoll::report {
namespace {

using testing::HasSubstr;
using testing::Not;

StepRecord sample() {
  StepRecord r;
  r.step = 1;
  r.loss = 8.04910;
  r.grad_norm = 1.2345;
  r.memory.reserved_bytes = uint64_t{1} << 29;
  r.memory.reserved_percent = 12.3;
  r.tokens_per_second = 12345.6;
  r.tflops = 0.884;
  r.mfu = 34.567;
  r.seconds = 2;
  return r;
}

TEST(StepLine, ShowsEveryNumber) {
  EXPECT_EQ(step_line(sample()),
            "step:  1  loss:  8.04910  grad_norm:  1.2345  memory:  0.50GiB(12.30%)  tps: 12,346  "
            "tflops: 0.88  mfu: 34.57%");
}

TEST(StepLine, WhatIsAbsentIsNotZero) {
  StepRecord r;
  r.step = 120;
  r.loss = std::nan("");
  EXPECT_EQ(
      step_line(r),
      "step: 120  loss:      nan  grad_norm: n/a  memory: n/a  tps: n/a  tflops: n/a  mfu: n/a");
  r.memory.active_bytes = 0;
  EXPECT_THAT(step_line(r), HasSubstr("memory:  0.00GiB  tps"));
  r.tokens_per_second = HUGE_VAL;
  EXPECT_THAT(step_line(r), HasSubstr("tps: inf"));
}

TEST(StepLine, ColourOnlyWhereAsked) {
  EXPECT_THAT(step_line(sample()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(step_line(sample(), true), HasSubstr("\x1b[32mloss:  8.04910\x1b[0m"));
}

TEST(ValidationLine, ShowsItsNumbers) {
  ValidationRecord v;
  v.step = 50;
  v.loss = 3.25;
  EXPECT_EQ(validation_line(v), "validate step: 50  loss:  3.25000  memory: n/a  tps: n/a");
}

TEST(Duration, IsShort) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(std::nullopt), "n/a");
  EXPECT_EQ(format_duration(std::nan("")), "n/a");
  EXPECT_EQ(format_duration(-1), "n/a");
  EXPECT_EQ(format_duration(HUGE_VAL), "n/a");
}

TEST(ProgressLine, FitsAnyWidth) {
  EXPECT_EQ(progress_line(50, 200, 3.5, 83, 80),
            " 25% [==========>                               ] 50/200  ETA 1:23  loss 3.5000");
  for (int width = 0; width < 200; ++width) {
    for (const auto& [done, total] :
         {std::pair<int64_t, int64_t>{0, 0}, {0, 9}, {9, 9}, {12, 9}, {1, 1'000'000'000}}) {
      const std::string line = progress_line(done, total, 1e300, 1e8, width);
      EXPECT_LT(static_cast<int>(line.size()), std::max(width, 1)) << line;
    }
  }
  EXPECT_THAT(progress_line(9, 9, 1, 0, 60), HasSubstr("100% ["));
  EXPECT_THAT(progress_line(999, 1000, 1, 0, 60), testing::StartsWith(" 99% "));
}

/// A terminal of so many columns that understands what the console sends: what a person sees.
struct Screen {
  std::vector<std::string> lines = {""};
  double now = 0;
  int draws = 0;
  std::string raw;

  void write(std::string_view text) {
    ++draws;
    raw += text;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text.substr(i, 4) == "\r\x1b[K") {
        lines.back().clear();
        i += 3;
      } else if (text[i] == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += text[i];
      }
    }
  }
  Terminal terminal(bool interactive) {
    return {interactive,
            false,
            -1,
            [] { return 60; },
            [this](std::string_view text) { write(text); },
            [this] { return now; }};
  }
};

TEST(Console, WithoutATerminalThereAreLinesOnly) {
  Screen screen;
  {
    Console console(screen.terminal(false));
    console.start(0, 10);
    console.progress(sample());
    console.step(sample());
    console.line("saved");
  }
  EXPECT_EQ(screen.raw, step_line(sample()) + "\nsaved\n");
}

TEST(Console, TheBarStaysBelowTheLinesAndGoesAtTheEnd) {
  Screen screen;
  Console console(screen.terminal(true));
  console.start(0, 4);
  for (int i = 1; i <= 4; ++i) {
    StepRecord r = sample();
    r.step = i;
    screen.now += 1;
    console.progress(r);
    EXPECT_THAT(screen.lines.back(), HasSubstr(fmt::format(" {}/4", i)));
    console.step(r);
    EXPECT_THAT(screen.lines.back(), HasSubstr(fmt::format(" {}/4", i)));
  }
  console.line("two\nlines\n");
  EXPECT_THAT(screen.lines.back(), HasSubstr("ETA 0:00"));
  console.finish();
  ASSERT_EQ(screen.lines.size(), 7u);
  EXPECT_THAT(screen.lines[3], testing::StartsWith("step:  4"));
  EXPECT_EQ(screen.lines[4], "two");
  EXPECT_EQ(screen.lines[6], "");
  console.line("after");
  EXPECT_EQ(screen.lines[6], "after");
  EXPECT_EQ(screen.lines.back(), "");
}

TEST(Console, TheBarIsDrawnAtMostTenTimesASecond) {
  Screen screen;
  Console console(screen.terminal(true));
  console.start(0, 1000);
  for (int i = 1; i <= 1000; ++i) {
    StepRecord r = sample();
    r.step = i;
    screen.now += 0.001;
    console.progress(r);
  }
  EXPECT_LE(screen.draws, 11);
  EXPECT_GE(screen.draws, 9);
}

TEST(Console, TheDestructorRemovesTheBar) {
  Screen screen;
  {
    Console console(screen.terminal(true));
    console.start(0, 10);
    console.progress(sample());
    EXPECT_NE(screen.lines.back(), "");
  }
  EXPECT_EQ(screen.lines.back(), "");
}

TEST(Console, ASignalHandlerCanRemoveTheBar) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Screen screen;
  Terminal terminal = screen.terminal(true);
  terminal.fd = ends[1];
  Console console(terminal);
  restore_terminal();  // no bar: writes nothing
  console.start(0, 10);
  console.progress(sample());
  restore_terminal();
  restore_terminal();
  ::close(ends[1]);
  char text[16];
  EXPECT_EQ(::read(ends[0], text, sizeof text), 4);
  EXPECT_EQ(std::string_view(text, 4), "\r\x1b[K");
  ::close(ends[0]);
}

/// Standard output is a terminal of its own while this lives.
struct PseudoTerminal {
  PseudoTerminal() {
    main = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (main < 0 || ::grantpt(main) != 0 || ::unlockpt(main) != 0) return;
    const int other = ::open(::ptsname(main), O_RDWR | O_NOCTTY);
    if (other < 0) return;
    winsize size{24, 97, 0, 0};
    ::ioctl(other, TIOCSWINSZ, &size);
    std::fflush(stdout);
    before = ::dup(STDOUT_FILENO);
    ::dup2(other, STDOUT_FILENO);
    ::close(other);
  }
  ~PseudoTerminal() {
    if (before >= 0) ::dup2(before, STDOUT_FILENO), ::close(before);
    if (main >= 0) ::close(main);
  }
  int main = -1, before = -1;
};

TEST(StandardTerminal, FollowsTheEnvironment) {
  const PseudoTerminal pty;
  if (pty.before < 0) GTEST_SKIP() << "no pseudo terminals here";
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  Terminal terminal = standard_terminal();
  EXPECT_TRUE(terminal.interactive && terminal.color);
  EXPECT_EQ(terminal.width(), 97);
  ::setenv("NO_COLOR", "1", 1);
  terminal = standard_terminal();
  EXPECT_TRUE(terminal.interactive);
  EXPECT_FALSE(terminal.color);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  terminal = standard_terminal();
  EXPECT_FALSE(terminal.interactive || terminal.color);
}

TEST(Console, LinesOfSeveralThreadsStayWhole) {
  Screen screen;
  Console console(screen.terminal(true));
  console.start(0, 1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&console, t] {
      for (int i = 0; i < 100; ++i) {
        console.line("thread " + std::to_string(t));
        console.progress(sample());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  console.finish();
  ASSERT_EQ(screen.lines.size(), 401u);
  for (std::size_t i = 0; i < 400; ++i)
    EXPECT_THAT(screen.lines[i], testing::MatchesRegex("thread [0-3]"));
}

}  // namespace
}  // namespace plimsoll::report
