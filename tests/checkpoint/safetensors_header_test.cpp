#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/safetensors.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

using testing::HasSubstr;

std::string with_length(const std::string& json) {
  const std::uint64_t size = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &size, 8);
  return out + json;
}

SafetensorsHeader parse(const std::string& file, std::uint64_t data_bytes = 0) {
  return parse_header(std::as_bytes(std::span(file)), file.size() + data_bytes, "f.safetensors");
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

TEST(SafetensorsHeader, ReadsTensorsInOrderOfTheirData) {
  const auto header =
      parse(with_length("{" + entry("b", "F32", "[2,3]", "[0,24]") + "," +
                        entry("a", "BF16", "[]", "[24,26]") + R"(,"__metadata__":{"k":"v"},)" +
                        entry("empty", "I64", "[0,7]", "[26,26]") + "}  "),
            26);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_THAT(header.tensors[0].shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(header.tensors[1].name, "a");
  EXPECT_EQ(header.tensors[1].dtype, DType::BF16);
  EXPECT_TRUE(header.tensors[1].shape.empty());
  EXPECT_EQ(header.tensors[2].bytes(), 0u);
  EXPECT_EQ(header.metadata.at("k"), "v");
}

TEST(SafetensorsHeader, KeysOfATensorMayComeInAnyOrder) {
  EXPECT_EQ(parse(with_length(R"({"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})"), 1)
                .tensors.size(),
            1u);
}

TEST(SafetensorsHeader, SubByteTypesAreCountedInBits) {
  EXPECT_NO_THROW(parse(with_length("{" + entry("a", "F4", "[3,2]", "[0,3]") + "}"), 3));
  EXPECT_THAT(error_of([] { parse(with_length("{" + entry("a", "F4", "[3]", "[0,2]") + "}"), 2); }),
              HasSubstr("F4 [3] has no size in whole bytes"));
}

struct Hostile {
  const char* name;
  std::string json;
  std::uint64_t data_bytes;
  std::string expected;  // part of the message
};
std::ostream& operator<<(std::ostream& out, const Hostile& h) {
  return out << h.name;
}

class HostileHeader : public testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsOneClearError) {
  const Hostile& h = GetParam();
  const std::string message = error_of([&] { parse(with_length(h.json), h.data_bytes); });
  EXPECT_THAT(message, testing::StartsWith("f.safetensors: "));
  EXPECT_THAT(message, HasSubstr(h.expected));
  EXPECT_THAT(message, testing::Not(HasSubstr("\n")));
  EXPECT_LT(message.size(), 600u);
}

const std::string kHuge = "18446744073709551615";

INSTANTIATE_TEST_SUITE_P(
    Files, HostileHeader,
    testing::Values(
        Hostile{"empty_header", "", 0, "does not start with '{'"},
        Hostile{"array", "[]", 0, "does not start with '{'"},
        Hostile{"byte_order_mark", "\xEF\xBB\xBF{}", 0, "does not start with '{'"},
        Hostile{"leading_space", " {}", 0, "does not start with '{'"},
        Hostile{"not_json", "{\"a\":", 0, "not valid JSON at byte"},
        Hostile{"trailing_text", "{}x", 0, "not valid JSON"},
        Hostile{"trailing_zero", std::string("{}\0", 3), 0, "not valid JSON"},
        Hostile{"nan", R"({"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}})", 1,
                "not valid JSON"},
        Hostile{"number_overflow", R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}})",
                1, "not valid JSON"},
        Hostile{"not_utf8", "{\"a\xff\":{}}", 0, "not valid JSON"},
        Hostile{"deep", "{\"a\":" + std::string(1'000'000, '['), 0,
                "must be an object, found an array"},
        Hostile{"deep_objects",
                [] {
                  std::string s;
                  for (int i = 0; i < 100'000; ++i) s += "{\"a\":";
                  return s;
                }(),
                0, "unknown key \"a\""},
        Hostile{"tensor_is_number", R"({"a":3})", 0, "entry \"a\": must be an object, found 3"},
        Hostile{"tensor_is_null", R"({"a":null})", 0, "found null"},
        Hostile{"metadata_number", R"({"__metadata__":{"k":1}})", 0,
                "__metadata__ \"k\": must be a string"},
        Hostile{"metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", 0,
                "__metadata__ twice"},
        Hostile{"metadata_key_twice", R"({"__metadata__":{"k":"1","k":"2"}})", 0,
                "has \"k\" twice"},
        Hostile{"metadata_list", R"({"__metadata__":[]})", 0, "must be an object"},
        Hostile{"no_dtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1,
                "\"dtype\" is missing"},
        Hostile{"no_shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1,
                "\"shape\" is missing"},
        Hostile{"no_offsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1,
                "\"data_offsets\" is missing"},
        Hostile{"empty_tensor", R"({"a":{}})", 0, "\"dtype\" is missing"},
        Hostile{"unknown_key", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1,
                "unknown key \"x\""},
        Hostile{"key_twice",
                R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                "key \"dtype\" appears twice"},
        Hostile{"unknown_dtype", "{" + entry("a", "F31", "[1]", "[0,4]") + "}", 4,
                "unknown dtype \"F31\""},
        Hostile{"lower_case_dtype", "{" + entry("a", "f32", "[1]", "[0,4]") + "}", 4,
                "unknown dtype"},
        Hostile{"dtype_number", R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1,
                "dtype must be a string, found 1"},
        Hostile{"dtype_list", R"({"a":{"dtype":[],"shape":[1],"data_offsets":[0,1]}})", 1,
                "dtype must be a string"},
        Hostile{"shape_string", R"({"a":{"dtype":"U8","shape":"1","data_offsets":[0,1]}})", 1,
                "shape must be a list"},
        Hostile{"negative_dim", "{" + entry("a", "U8", "[-1]", "[0,1]") + "}", 1, "found -1"},
        Hostile{"negative_zero", "{" + entry("a", "U8", "[-0]", "[0,0]") + "}", 0,
                "must be a whole number"},
        Hostile{"float_dim", "{" + entry("a", "U8", "[1.0]", "[0,1]") + "}", 1, "found \"1.0\""},
        Hostile{"nested_dim", "{" + entry("a", "U8", "[[1]]", "[0,1]") + "}", 1, "found an array"},
        Hostile{"dim_beyond_int64", "{" + entry("a", "U8", "[" + kHuge + "]", "[0,1]") + "}", 1,
                "found " + kHuge},
        Hostile{"dim_beyond_uint64", "{" + entry("a", "U8", "[" + kHuge + "0]", "[0,1]") + "}", 1,
                "must be a whole number"},
        Hostile{"product_overflow",
                "{" + entry("a", "F64", "[4294967296,4294967296]", "[0,0]") + "}", 0,
                "has no size in whole bytes below 2^63"},
        Hostile{"product_overflow_hidden_by_zero",
                "{" + entry("a", "U8", "[0,4294967296,4294967296]", "[0,0]") + "}", 0,
                "has no size"},
        Hostile{"byte_overflow", "{" + entry("a", "F64", "[4611686018427387904]", "[0,0]") + "}", 0,
                "has no size"},
        Hostile{"many_dims",
                "{" +
                    entry(
                        "a", "U8",
                        "[1" +
                            [] {
                              std::string s;
                              for (int i = 0; i < 64; ++i) s += ",1";
                              return s;
                            }() +
                            "]",
                        "[0,1]") +
                    "}",
                1, "more than 64 dimensions"},
        Hostile{"offsets_one", "{" + entry("a", "U8", "[1]", "[0]") + "}", 1,
                "must be two numbers, found 1"},
        Hostile{"offsets_three", "{" + entry("a", "U8", "[1]", "[0,1,2]") + "}", 1,
                "a third value 2"},
        Hostile{"offsets_negative", "{" + entry("a", "U8", "[1]", "[-1,0]") + "}", 1, "found -1"},
        Hostile{"offsets_float", "{" + entry("a", "U8", "[1]", "[0,1e0]") + "}", 1,
                "two whole numbers"},
        Hostile{"offsets_backwards", "{" + entry("a", "U8", "[1]", "[1,0]") + "}", 1,
                "[1, 0] end before they begin"},
        Hostile{"wrong_size", "{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4,
                "F32 [2] takes 8 bytes, but data_offsets [0, 4] hold 4"},
        Hostile{"huge_offsets",
                "{" + entry("a", "U8", "[1]", "[18446744073709551614," + kHuge + "]") + "}", 1,
                "a hole of 18446744073709551614 bytes"},
        Hostile{"hole_at_start", "{" + entry("a", "U8", "[1]", "[1,2]") + "}", 2,
                "a hole of 1 bytes at the start"},
        Hostile{
            "hole",
            "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "U8", "[1]", "[2,3]") + "}",
            3, "tensor \"b\": data begins at 2, expected 1: a hole of 1 bytes after tensor \"a\""},
        Hostile{
            "overlap",
            "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}",
            3, "tensor \"b\": data begins at 1, expected 2: it overlaps tensor \"a\""},
        Hostile{
            "same_place",
            "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[0,2]") + "}",
            2, "overlaps"},
        Hostile{
            "twice",
            "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}",
            2, "tensor \"a\" appears twice"},
        Hostile{"twice_by_escape",
                "{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                    entry("\\u0061", "U8", "[1]", "[1,2]") + "}",
                2, "tensor \"a\" appears twice"},
        Hostile{"cut_by_one", "{" + entry("a", "U8", "[4]", "[0,4]") + "}", 3,
                "the file is cut short: expected"},
        Hostile{"one_too_many", "{" + entry("a", "U8", "[4]", "[0,4]") + "}", 5,
                "1 bytes follow the last tensor"},
        Hostile{"data_without_tensors", "{}", 5, "5 bytes follow"},
        Hostile{"name_with_newline", "{" + entry("a\\nb", "U8", "[4]", "[0,3]") + "}", 3,
                "tensor \"a?b\""},
        Hostile{"long_name", "{" + entry(std::string(5000, 'n'), "U8", "[4]", "[0,3]") + "}", 3,
                "nnn...\""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SafetensorsHeader, RefusesWhatIsTooShortForItsOwnHeader) {
  EXPECT_THAT(error_of([] { parse(""); }), HasSubstr("expected at least 8 bytes, found 0"));
  EXPECT_THAT(error_of([] { parse(std::string(7, 'x')); }), HasSubstr("found 7"));
  std::string file = with_length("{}");
  file[0] = 9;
  EXPECT_THAT(error_of([&] { parse(file); }), HasSubstr("expected a header of 9 bytes, found 2"));
}

TEST(SafetensorsHeader, CapsTheHeader) {
  std::string file = with_length("{}");
  const std::uint64_t size = kMaxHeaderBytes + 1;
  std::memcpy(file.data(), &size, 8);
  EXPECT_THAT(error_of([&] { parse(file, 1ull << 40); }), HasSubstr("at most 100000000"));
  const std::uint64_t all = ~0ull;
  std::memcpy(file.data(), &all, 8);
  EXPECT_THAT(error_of([&] { parse(file, 1ull << 40); }),
              HasSubstr("header of 18446744073709551615"));
}

TEST(SafetensorsHeader, KnowsAGitLfsPointer) {
  EXPECT_THAT(error_of([] { parse("version https://git-lfs.github.com/spec/v1\n"); }),
              HasSubstr("git-lfs pointer"));
}

TEST(SafetensorsHeader, EveryPrefixOfAFileIsRefused) {
  const std::string file = with_length("{" + entry("a", "F32", "[2]", "[0,8]") + "}") + "01234567";
  EXPECT_NO_THROW(parse(file));
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_THROW(parse(file.substr(0, n)), Error) << n;
  }
}

TEST(DType, NamesComeBack) {
  for (int i = 0; i <= static_cast<int>(DType::C64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_GT(dtype_bits(dtype), 0);
  }
  EXPECT_FALSE(dtype_from_name("F128"));
}

}  // namespace
}  // namespace plimsoll::checkpoint
