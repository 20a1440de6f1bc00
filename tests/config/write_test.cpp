#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"
#include "tests/config/sample.h"

namespace plimsoll::config {
namespace {

using sample::Recipe;
using testing::HasSubstr;

Recipe reread(Recipe& recipe) {
  Recipe again;
  load(Source{"again.toml", to_toml(recipe)}, {}, describe(again));
  return again;
}

TEST(Write, AFullRecipeRoundTrips) {
  Recipe r;
  r.name = "quotes \" \\ tab\t line\n bell\x07 del\x7f umlaut \xc3\xa4 '";
  r.note = "";
  r.data.files = {"a", "", "[x]"};
  r.data.weights = {INT64_MIN, INT64_MAX, 0};
  r.data.extensions.emplace();
  r.memory.slab = 0;
  r.memory.budget = (uint64_t{1} << 40) + 1;
  r.memory.huge_pages = false;
  r.train.limit = std::numeric_limits<double>::infinity();
  r.train.optim.groups.resize(2);
  r.train.optim.groups[1].weight_decay = 5e-324;
  Recipe again = reread(r);
  EXPECT_EQ(again.name, r.name);
  EXPECT_EQ(again.note, "");
  EXPECT_EQ(again.data.files, r.data.files);
  EXPECT_EQ(again.data.weights, r.data.weights);
  EXPECT_TRUE(again.data.extensions && again.data.extensions->empty());
  EXPECT_EQ(again.memory.budget, r.memory.budget);
  EXPECT_EQ(again.train.limit, r.train.limit);
  EXPECT_EQ(again.train.optim.groups.at(1).weight_decay, 5e-324);
  EXPECT_TRUE(compare(r, again).empty());
  EXPECT_EQ(to_toml(again), to_toml(r));
}

TEST(Write, DoublesKeepTheirBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    Recipe r;
    r.train.limit = std::bit_cast<double>(random());
    if (std::isnan(r.train.limit)) continue;
    const Recipe again = reread(r);
    ASSERT_EQ(std::bit_cast<uint64_t>(again.train.limit), std::bit_cast<uint64_t>(r.train.limit))
        << to_toml(r);
  }
  Recipe r;
  r.train.limit = -0.0;
  EXPECT_TRUE(std::signbit(reread(r).train.limit));
  r.train.limit = std::nan("");
  EXPECT_TRUE(std::isnan(reread(r).train.limit));
}

TEST(Write, UnsetOptionalsAreComments) {
  Recipe r;
  const std::string text = to_toml(r);
  EXPECT_THAT(text, HasSubstr("# note is not set\n"));
  EXPECT_THAT(text, HasSubstr("slab = \"64 MiB\"\n"));
  EXPECT_THAT(text, HasSubstr("\n[train.optim]\nlr = 0.0008\nfloor = 0.0\n"));
  EXPECT_THAT(text, HasSubstr("groups = []\n"));
}

TEST(Write, TextThatIsNotUtf8IsRefused) {
  Recipe r;
  r.name = "\xff";
  EXPECT_THROW(to_toml(r), UsageError);
}

TEST(Markdown, HasATablePerSection) {
  Recipe r;
  const std::string text = to_markdown(r);
  EXPECT_THAT(
      text,
      HasSubstr("## `[memory]`\n\nwho holds what\n\n| key | takes | default | what it is |\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "| `lr` | a number, above 0 | `0.0008` | learning rate at the top of the schedule |\n"));
  EXPECT_THAT(text, HasSubstr("| `moments` | one of \"fp32\", \"bf16\" | `\"fp32\"` |"));
  EXPECT_THAT(text, HasSubstr("## `[[train.optim.groups]]`\n\nfirst match wins\n\n"));
  EXPECT_THAT(text, HasSubstr("| `match` | a text | required |"));
  EXPECT_THAT(text, HasSubstr("the lowest \\| smallest rate"));
  EXPECT_THAT(text, HasSubstr("| `budget` | a size such as \"512 MiB\", above 0 | not set |"));
}

}  // namespace
}  // namespace plimsoll::config
