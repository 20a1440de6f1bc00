#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"
#include "plimsoll/config/guard.h"
#include "tests/config/sample.h"

namespace plimsoll::config {
namespace {

using sample::Recipe;
using testing::HasSubstr;

std::string problems_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  Recipe recipe;
  try {
    load(Source{"h.toml", text}, sets, describe(recipe));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

std::string repeat(const std::string& piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

TEST(Hostile, DeepNestingIsRefusedBeforeItIsParsed) {
  EXPECT_EQ(problems_of("a = " + repeat("[", 100000)), "h.toml:1: brackets nest deeper than 32");
  EXPECT_EQ(problems_of("\na = " + repeat("{a=", 100000)),
            "h.toml:2: brackets nest deeper than 32");
  EXPECT_EQ(problems_of(repeat("a.", 400000) + "a = 1"), "h.toml:1: a key has more than 16 parts");
  EXPECT_EQ(problems_of("[" + repeat("a .\t", 100000) + "a]"),
            "h.toml:1: a key has more than 16 parts");
  EXPECT_EQ(problems_of("[" + repeat("\"\".", 100000) + "a]"),
            "h.toml:1: a key has more than 16 parts");
}

TEST(Hostile, WhatOnlyLooksDeepIsFine) {
  EXPECT_EQ(problems_of("name = \"" + repeat("[.", 100) + "\""), "");
  EXPECT_EQ(problems_of("name = \"\"\"" + repeat("[.\n", 100) + "\"\"\"\"\"\nnote = '''" +
                        repeat("{.", 100) + "'''"),
            "");
  EXPECT_EQ(problems_of("# " + repeat("[.", 100) + "\nname = \"a\\\"" + repeat("[", 40) + "\""),
            "");
  EXPECT_EQ(problems_of("[data]\nweights = [" + repeat("1,", 1000) + "]"), "");
  EXPECT_EQ(problems_of("[train.optim]\nbetas = [" + repeat("0.5,", 2) + "]"), "");
}

TEST(Hostile, NestingWithinTheLimitsIsParsedSafely) {
  // The most that passes the guard: every bracket holds the longest key.
  std::string text = "x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x = ";
  text += repeat("{x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x=", 31) + "1" + repeat("}", 31);
  EXPECT_THAT(problems_of(text), HasSubstr("unknown section x"));
}

TEST(Hostile, HugeFilesAreRefused) {
  EXPECT_THAT(problems_of(std::string(kMaxFileBytes + 1, '#')), HasSubstr("larger than"));
  EXPECT_EQ(problems_of(std::string(kMaxFileBytes, '#')), "");
}

TEST(Hostile, ManyProblemsAreCounted) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "zzzzzzzz" + std::to_string(i) + " = 1\n";
  const std::string problems = problems_of(text);
  EXPECT_THAT(problems, testing::EndsWith("\nand 4950 more"));
}

TEST(Hostile, ManyTablesWithManyProblemsTakeNoTime) {
  // Looking for what was meant, over all tables, for each of these keys would take minutes.
  const std::string problems = problems_of(repeat("[[train.optim.groups]]\nxyz = 1\n", 30000));
  EXPECT_THAT(problems, testing::EndsWith("more"));
}

TEST(Hostile, BrokenTextIsOneLine) {
  for (const std::string& text :
       {std::string("name = \"\xff\xfe\""), std::string("\xff"), std::string("name = \"a\0b\"", 12),
        std::string("name = \"abc"), std::string("name"), std::string("name ="), std::string("= 1"),
        std::string("[]"), std::string("[[train]]\n[train]"), std::string("name = 'a' 'b'"),
        std::string("train.steps = 99999999999999999999"), std::string("train.steps = 0x"),
        std::string("name = \"\\uD800\""), std::string("\xEF\xBB"),
        std::string("name = \"\"\"abc\""), std::string("data.weights = [1,,2]"),
        std::string("[train]\nsteps.x = 1\nsteps = 2")}) {
    const std::string problems = problems_of(text);
    EXPECT_NE(problems, "") << text;
    EXPECT_EQ(problems.find('\n'), std::string::npos) << problems;
    for (const char c : problems) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << problems;
  }
}

TEST(Hostile, KeysWithControlCharactersAreShownSafely) {
  EXPECT_THAT(problems_of("\"a\\n\\u001b[2J\" = 1"), HasSubstr("unknown key a??[2J"));
  EXPECT_THAT(problems_of("", {"a\x1b\n=1"}), HasSubstr("unknown key a??"));
}

TEST(Hostile, SetsThatAreNotUtf8) {
  EXPECT_THAT(problems_of("", {"name=\xff"}), HasSubstr("is not valid UTF-8"));
  EXPECT_NE(problems_of("", {"\xff=1"}), "");
  EXPECT_NE(problems_of("", {"train.steps=" + repeat("[", 100000)}), "");
  EXPECT_NE(problems_of("", {repeat("a.", 100000) + "=1"}), "");
}

}  // namespace
}  // namespace plimsoll::config
