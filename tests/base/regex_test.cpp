#include "plimsoll/base/regex.h"

#include "tests/expect_error.h"

namespace plimsoll {
namespace {

using ::plimsoll::testing::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Regex, IsFoundAnywhere) {
  const Regex norm("norm|bias$");
  EXPECT_TRUE(norm.found_in("layers.0.attention_norm.weight"));
  EXPECT_TRUE(norm.found_in("wq.bias"));
  EXPECT_FALSE(norm.found_in("wq.bias.more"));
  EXPECT_FALSE(norm.found_in(""));
  EXPECT_TRUE(Regex("").found_in(""));
}

TEST(Regex, KnowsUnicode) {
  EXPECT_TRUE(Regex("^\\p{L}{3}$").found_in("\u00e4\u6f22z")) << "three letters, six bytes";
  EXPECT_FALSE(Regex("^..$").found_in("\U0001f6a2"));
}

TEST(Regex, CopiesShareAndKeepTheirPattern) {
  const Regex first("a+");
  const Regex second = first;
  EXPECT_EQ(second.pattern(), "a+");
  EXPECT_TRUE(second.found_in("baa"));
}

TEST(Regex, SaysWhatIsWrongWithAPattern) {
  EXPECT_THAT(error_of([] { Regex("wq("); }),
              AllOf(HasSubstr("\"wq(\""), HasSubstr("parenthes"), HasSubstr("offset 3")));
}

// Backtracking without end is an error, not a hang.
TEST(Regex, GivesUpOnWhatTakesForEver) {
  EXPECT_THAT(error_of([] { Regex("^(a+)+$").found_in(std::string(64, 'a') + "b"); }),
              HasSubstr("PCRE2 error"));
}

}  // namespace
}  // namespace plimsoll
