#include "plimsoll/text/pre_tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/text/added_tokens.h"

namespace plimsoll::text {
namespace {

using testing::ElementsAre;
using Words = std::vector<std::string>;

Words words(std::vector<Splitter> stages, std::string_view text) {
  Words out;
  PreTokenizer(std::move(stages)).for_each_word(text, [&](auto w) { out.emplace_back(w); });
  return out;
}

TEST(PreTokenizer, Gpt2) {
  const auto cut = [](std::string_view s) { return words({Splitter::kGpt2}, s); };
  EXPECT_THAT(cut(""), ElementsAre());
  EXPECT_THAT(cut("I'm we'LL x's"), ElementsAre("I", "'m", " we", "'", "LL", " x", "'s"));
  EXPECT_THAT(cut("a  b   "), ElementsAre("a", " ", " b", "   "));
  EXPECT_THAT(cut("a\n b"), ElementsAre("a", "\n", " b"));
  EXPECT_THAT(cut("x12 345!? \u00e9"), ElementsAre("x", "12", " 345", "!?", " \u00e9"));
  EXPECT_THAT(cut("\u3000\u3000a"), ElementsAre("\u3000", "\u3000", "a"));
}

TEST(PreTokenizer, Cl100kKinds) {
  const auto one = [](std::string_view s) { return words({Splitter::kCl100k1}, s); };
  const auto three = [](std::string_view s) { return words({Splitter::kCl100k3}, s); };
  EXPECT_THAT(one("1234"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(three("1234"), ElementsAre("123", "4"));
  EXPECT_THAT(one("we'LL\t'T 'T"), ElementsAre("we", "'LL", "\t", "'T", " '", "T"));
  EXPECT_THAT(one("it'\u017f"), ElementsAre("it", "'\u017f"));
  EXPECT_THAT(one("(a) b"), ElementsAre("(a", ")", " b"));
  EXPECT_THAT(one("x;\r\n\r\ny"), ElementsAre("x", ";\r\n\r\n", "y"));
  EXPECT_THAT(one("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(one("a \t 1"), ElementsAre("a", " \t", " ", "1"));
}

TEST(PreTokenizer, StagesApplyToThePiecesOfTheOneBefore) {
  EXPECT_THAT(words({Splitter::kDigits}, "ab12c"), ElementsAre("ab", "1", "2", "c"));
  EXPECT_THAT(words({Splitter::kDigitRuns}, "ab12c"), ElementsAre("ab", "12", "c"));
  EXPECT_THAT(words({Splitter::kDigits, Splitter::kPrefixSpace, Splitter::kGpt2}, "a 1!"),
              ElementsAre(" a", " ", " 1", " !"));
  EXPECT_THAT(words({}, "all of it"), ElementsAre("all of it"));
}

TEST(PreTokenizer, KnowsItsPatterns) {
  for (const Splitter s : {Splitter::kGpt2, Splitter::kCl100k1, Splitter::kCl100k3}) {
    EXPECT_EQ(splitter_of_pattern(pattern_of(s)), s);
  }
  EXPECT_EQ(splitter_of_pattern("\\s+"), std::nullopt);
}

// Tokens as "<N>", text between as it is, parted by bars.
std::string split(const std::vector<AddedToken>& tokens, std::string_view text,
                  bool skip_special = false) {
  std::string out;
  AddedTokenMatcher(tokens).split(
      text, skip_special, [&](std::string_view piece) { out.append(piece).append("|"); },
      [&](int32_t id) { out += fmt::format("<{}>|", id); });
  return out;
}

AddedToken token(std::string content, int32_t id) {
  AddedToken t;
  t.content = t.found_as = std::move(content);
  t.id = id;
  return t;
}

TEST(AddedTokens, LongestOfTheLeftmost) {
  const std::vector<AddedToken> tokens = {token("ab", 1), token("abcd", 2), token("bc", 3),
                                          token("x", 4)};
  EXPECT_EQ(split(tokens, "abcd"), "<2>|");
  EXPECT_EQ(split(tokens, "abce"), "<1>|ce|");
  EXPECT_EQ(split(tokens, "zbcab"), "z|<3>|<1>|");
  EXPECT_EQ(split(tokens, "xx"), "<4>|<4>|");
  EXPECT_EQ(split(tokens, "a"), "a|");
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split({}, "ab"), "ab|");
}

TEST(AddedTokens, FlagsTakeSpaceAndAskForWordEdges) {
  AddedToken strip = token("[M]", 1);
  strip.lstrip = strip.rstrip = true;
  EXPECT_EQ(split({strip}, "a \u3000[M] \n b"), "a|<1>|b|");
  EXPECT_EQ(split({strip}, "[M]  [M]"), "<1>|<1>|");  // the second finds nothing left
  AddedToken single = token("ab", 2);
  single.single_word = true;
  EXPECT_EQ(split({single}, "ab cab ab_ -ab-"), "<2>| cab ab_ -|<2>|-|");
  AddedToken special = token("<s>", 3);
  special.special = true;
  EXPECT_EQ(split({special, token("u", 4)}, "u<s>u", true), "<4>|<s>|<4>|");
}

}  // namespace
}  // namespace plimsoll::text
