#include "plimsoll/base/units.h"

#include "tests/expect_error.h"

namespace plimsoll {
namespace {

using ::plimsoll::testing::error_of;
using ::testing::HasSubstr;

TEST(ParseBytes, KnowsTheUsualSpellings) {
  EXPECT_EQ(parse_bytes("1024"), 1024);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("2 GiB"), 2LL << 30);
  EXPECT_EQ(parse_bytes("512MB"), 512000000);
  EXPECT_EQ(parse_bytes(" 64 kib "), 65536);
  EXPECT_EQ(parse_bytes("1.5g"), 3LL << 29);
  EXPECT_EQ(parse_bytes("0.5 TB"), 500000000000);
  EXPECT_EQ(parse_bytes("7B"), 7);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
}

TEST(ParseBytes, RefusesTheRestAndQuotesIt) {
  for (const char* bad :
       {"", " ", "GiB", "-1", "+1", "1e3", "1.2.3", ".", "12 parsecs", "1 GiB x",
        "9223372036854775808", "9223372036854775807 KiB", "99999999.5 TiB", "nan", "inf", "0x10"}) {
    EXPECT_THAT(error_of([&] { parse_bytes(bad); }), HasSubstr(std::string("\"") + bad + "\""));
  }
}

TEST(FormatBytes, ShowsThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(2LL << 30), "2.00 GiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(10 << 10), "10.0 KiB");
  EXPECT_EQ(format_bytes(600 << 10), "600 KiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_bytes(INT64_MAX), "8.00 EiB");
  EXPECT_EQ(format_bytes(INT64_MIN), "-8.00 EiB");
}

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace plimsoll
