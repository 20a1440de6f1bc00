#include "plimsoll/data/lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::data {
namespace {

using Result = LineReader::Result;

std::vector<std::string> lines_of(std::string_view bytes, std::size_t limit = 1 << 20) {
  const auto source = memory_source(bytes);
  LineReader reader(*source, limit);
  std::vector<std::string> lines;
  std::string_view line;
  while (true) {
    const Result result = reader.next(line);
    if (result == Result::kEnd) return lines;
    lines.push_back(result == Result::kTooLong ? "TOO LONG" : std::string(line));
    EXPECT_EQ(reader.line_number(), std::ssize(lines));
  }
}

using Lines = std::vector<std::string>;

TEST(Lines, CutsAtNewlines) {
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\n"), Lines{"a"});
  EXPECT_EQ(lines_of("a\n\nb"), (Lines{"a", "", "b"}));
  EXPECT_EQ(lines_of("\n\n"), (Lines{"", ""}));
}

TEST(Lines, DropsCarriageReturnsAndTheByteOrderMark) {
  EXPECT_EQ(lines_of("a\r\nb\r"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\rb\r\r\n"), (Lines{"a\rb\r"}));
  EXPECT_EQ(lines_of("\xef\xbb\xbf"
                     "a\n\xef\xbb\xbf"
                     "b"),
            (Lines{"a",
                   "\xef\xbb\xbf"
                   "b"}));
}

TEST(Lines, PassesOverLinesBeyondTheLimitAndStaysInStep) {
  EXPECT_EQ(lines_of("12345\n123456\n12\n", 5), (Lines{"12345", "TOO LONG", "12"}));
  EXPECT_EQ(lines_of("12345\r\n123456", 5), (Lines{"12345", "TOO LONG"}));
  const std::string huge(5 << 20, 'x');
  EXPECT_EQ(lines_of("a\n" + huge + "\nb", 100), (Lines{"a", "TOO LONG", "b"}));
  EXPECT_EQ(lines_of("a\n" + huge, 100), (Lines{"a", "TOO LONG"}));
}

TEST(Lines, ReadsLinesOfManyBufferSizes) {
  for (const std::size_t size : {(1U << 20) - 1, 1U << 20, (1U << 20) + 1, 3U << 20}) {
    const std::string line(size, 'y');
    EXPECT_EQ(lines_of("a\n" + line + "\nb", 4 << 20), (Lines{"a", line, "b"}));
  }
}

TEST(Lines, RandomTextComesBackWhole) {
  std::string text;
  Lines expected;
  std::uint32_t state = 7;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    expected.emplace_back((state >> 16) % 300, static_cast<char>('a' + i % 26));
    text += expected.back() + (state % 3 == 0 ? "\r\n" : "\n");
  }
  EXPECT_EQ(lines_of(text), expected);
}

}  // namespace
}  // namespace plimsoll::data
