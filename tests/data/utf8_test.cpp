#include "plimsoll/data/utf8.h"

#include <gtest/gtest.h>

namespace plimsoll::data {
namespace {

const std::string kBad = "\xef\xbf\xbd";

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_prefix("abc"), 3U);
  EXPECT_EQ(valid_utf8_prefix("a\xc3\xa9\xf0\x9f\x98\x80z"), 8U);
  EXPECT_EQ(valid_utf8_prefix("ab\xff"), 2U);
  EXPECT_EQ(valid_utf8_prefix("ab\xc3"), 2U);
  EXPECT_EQ(valid_utf8_prefix("\xed\xa0\x80"), 0U) << "a surrogate";
  EXPECT_EQ(valid_utf8_prefix("\xc0\x80"), 0U) << "over-long";
  EXPECT_EQ(valid_utf8_prefix("\xf4\x90\x80\x80"), 0U) << "above U+10FFFF";
}

TEST(Utf8, ReplacesMaximalParts) {
  EXPECT_EQ(replace_invalid_utf8("ok"), "ok");
  EXPECT_EQ(replace_invalid_utf8("a\xff"
                                 "b"),
            "a" + kBad + "b");
  EXPECT_EQ(replace_invalid_utf8("\xe2\x82"), kBad) << "a cut character is one";
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x98z"), kBad + "z");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), kBad + kBad + kBad);
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf"), kBad + kBad);
  // The example of the Unicode standard, table 3-8.
  EXPECT_EQ(replace_invalid_utf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
            "a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d");
}

TEST(Utf8, AgreesWithTheFastCheckOnEveryShortString) {
  // All strings of up to three bytes from the interesting ones.
  const std::string bytes = "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5";
  std::string text;
  const auto check = [&] {
    EXPECT_EQ(is_utf8(text), valid_utf8_prefix(text) == text.size()) << text;
    EXPECT_TRUE(is_utf8(replace_invalid_utf8(text)));
  };
  for (const char a : bytes) {
    for (const char b : bytes) {
      for (const char c : bytes) {
        for (const char d : bytes) {
          text = {a, b, c, d};
          check();
        }
      }
    }
  }
}

TEST(Utf8, LoneSurrogateEscapesAreReplaced) {
  const auto mend = [](std::string json) {
    replace_lone_surrogate_escapes(json);
    return json;
  };
  EXPECT_EQ(mend(R"("\ud83d\ude00")"), R"("\ud83d\ude00")");
  EXPECT_EQ(mend(R"("\ud83d")"), R"("\ufffd")");
  EXPECT_EQ(mend(R"("\ude00\ud83d")"), R"("\ufffd\ufffd")");
  EXPECT_EQ(mend(R"("\ud83d\ud83d\ude00")"), R"("\ufffd\ud83d\ude00")");
  EXPECT_EQ(mend(R"("\\ud83d")"), R"("\\ud83d")") << "an escaped backslash";
  EXPECT_EQ(mend(R"("\ud8)"), R"("\ud8)");
  EXPECT_EQ(mend(R"("\uD8FF\n\u0041")"), R"("\ufffd\n\u0041")");
}

}  // namespace
}  // namespace plimsoll::data
