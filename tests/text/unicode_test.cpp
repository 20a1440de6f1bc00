#include "plimsoll/text/unicode.h"

#include <gtest/gtest.h>

#include "plimsoll/text/byte_level.h"
#include "plimsoll/text/nfc.h"

namespace plimsoll::text {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  EXPECT_EQ(repair_utf8(bytes, false, out), bytes.size());
  EXPECT_TRUE(is_valid_utf8(out));
  return out;
}

TEST(Utf8, EveryCodePointSurvives) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string s;
    append_utf8(c, s);
    const Decoded d = decode_utf8(s.data());
    ASSERT_EQ(d.code_point, c);
    ASSERT_EQ(d.size, s.size());
    ASSERT_EQ(repaired(s), s);
  }
}

TEST(Utf8, EachMaximalSubpartBecomesOneReplacement) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(repaired("\xE4\xB8"), r);  // cut short
  EXPECT_EQ(repaired("\xF0\x9F\x98"
                     "a"),
            r + "a");  // cut by another character
  EXPECT_EQ(repaired("\xFF\xFE"), r + r);
  EXPECT_EQ(repaired("\xC3("), r + "(");
  EXPECT_EQ(repaired("\xC0\x80"), r + r);                  // overlong
  EXPECT_EQ(repaired("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(repaired("\xF0\x80\x80\x80"), r + r + r + r);  // overlong
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), r + r + r + r);  // past U+10FFFF
  EXPECT_EQ(repaired("\x80"
                     "a\xBF"),
            r + "a" + r);
}

TEST(Utf8, AnUnfinishedTailWaitsWhenMoreFollows) {
  std::string out;
  EXPECT_EQ(repair_utf8("ab\xF0\x9F\x98", true, out), 2u);
  EXPECT_EQ(out, "ab");
  EXPECT_EQ(repair_utf8("\xF0\x9F\xFFz", true, out), 4u);  // can no longer become valid
  EXPECT_EQ(out, "ab\uFFFD\uFFFDz");
}

TEST(UnicodeTable, ClassesOfHuggingFace) {
  const UnicodeTable& t = UnicodeTable::instance();
  for (const uint32_t c :
       std::initializer_list<uint32_t>{'a', 'Z', 0xAA, 0x3A9, 0x4E2D, 0xD7A3, 0x1E900, 0x323AF}) {
    EXPECT_EQ(t.char_class(c), CharClass::kLetter) << c;
  }
  for (const uint32_t c : std::initializer_list<uint32_t>{'0', '9', 0xB2, 0x661, 0x2167, 0x1D7FF}) {
    EXPECT_EQ(t.char_class(c), CharClass::kNumber) << c;
  }
  for (const uint32_t c :
       std::initializer_list<uint32_t>{0x9, 0xD, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x3000}) {
    EXPECT_EQ(t.char_class(c), CharClass::kSpace) << c;
  }
  for (const uint32_t c : std::initializer_list<uint32_t>{0x0, 0x1C, '!', '_', 0x301, 0x200B,
                                                          0x180E, 0xFEFF, 0xD800, 0x10FFFF}) {
    EXPECT_EQ(t.char_class(c), CharClass::kOther) << c;
  }
  EXPECT_TRUE(t.is_word('_'));
  EXPECT_TRUE(t.is_word(0x301));
  EXPECT_FALSE(t.is_word('-'));
  EXPECT_TRUE(t.is_numeric(0xBD));
  EXPECT_FALSE(t.is_numeric('a'));
}

std::string nfc(std::string_view s) {
  std::string out;
  return normalise_nfc(s, out) ? out : std::string(s);
}

TEST(Nfc, ComposesOrdersAndLeavesTheRest) {
  std::string out = "untouched";
  EXPECT_FALSE(normalise_nfc("plain \u00e9 \u4e2d", out));
  EXPECT_EQ(out, "untouched");
  EXPECT_EQ(nfc("cafe\u0301!"), "caf\u00e9!");
  EXPECT_EQ(nfc("\u0301x"), "\u0301x");            // nothing to compose with
  EXPECT_EQ(nfc("s\u0307\u0323"), "\u1e69");       // marks sorted first
  EXPECT_EQ(nfc("\u212b\u2126"), "\u00c5\u03a9");  // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");        // excluded from composition
  EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");  // Hangul
  EXPECT_EQ(nfc("\uac00\u11a8\u1161"), "\uac01\u1161");
  EXPECT_EQ(nfc("a\u0301e\u0301"), "\u00e1\u00e9");
}

TEST(ByteLevel, SpellsEveryByteAndReadsItBack) {
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
  std::string spelling;
  append_spelling(bytes, spelling);
  EXPECT_TRUE(is_valid_utf8(spelling));
  EXPECT_EQ(bytes_of_spelling(spelling), bytes);
  spelling.clear();
  append_spelling(" a\n", spelling);
  EXPECT_EQ(spelling, "\u0120a\u010a");
  EXPECT_EQ(bytes_of_spelling("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling("\u4e2d"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::text
