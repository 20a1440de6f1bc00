#include "plimsoll/data/documents.h"

#include <utility>
#include <vector>

#include "tests/compress.h"
#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

struct Read {
  std::vector<std::pair<std::string, std::int64_t>> documents;  // text, line
  DocumentCounts counts;
};

Read read(std::string_view bytes, const DataConfig& config, const std::string& name = "x") {
  DocumentReader reader(memory_source(bytes, name), config);
  Read result;
  Document document;
  while (reader.next(document)) result.documents.emplace_back(document.text, document.line);
  result.counts = reader.counts();
  return result;
}

DataConfig jsonl(const std::string& on_bad_line = "fail") {
  DataConfig config;
  config.format = "jsonl";
  config.on_bad_line = on_bad_line;
  return config;
}

DataConfig text(const std::string& documents) {
  DataConfig config;
  config.format = "text";
  config.text_documents = documents;
  return config;
}

TEST(Jsonl, ReadsTheTextOfEachLine) {
  const Read got = read(
      "{\"text\": \"one\", \"id\": 1}\n\n  \t\r\n{\"a\": [{}], \"text\": \"t\\nw\\u00f6\"}\r\n"
      "{\"text\":\"\"}",
      jsonl());
  EXPECT_THAT(got.documents, ElementsAre(Pair("one", 1), Pair("t\nw\xc3\xb6", 4), Pair("", 5)));
  EXPECT_EQ(got.counts.documents, 3);
  EXPECT_EQ(got.counts.bytes, 8);
  EXPECT_EQ(got.counts.skipped, 0);
}

TEST(Jsonl, TakesTheFieldThatIsAskedFor) {
  DataConfig config = jsonl();
  config.text_field = "body";
  EXPECT_THAT(read("{\"text\": \"no\", \"body\": \"yes\"}", config).documents,
              ElementsAre(Pair("yes", 1)));
}

TEST(Jsonl, SkipsTheByteOrderMark) {
  EXPECT_THAT(read("\xef\xbb\xbf{\"text\": \"a\"}\r\n", jsonl()).documents,
              ElementsAre(Pair("a", 1)));
}

struct Bad {
  std::string line;
  std::string why;
};

std::vector<Bad> bad_lines() {
  return {
      {"{\"text\": \"cut", "not JSON"},
      {"{\"text\": \"a\"", "not JSON"},
      {"{\"text\": \"a\"} {\"text\": \"b\"}", "not JSON"},
      {"hello", "not JSON"},
      {"{'text': 'a'}", "not JSON"},
      {"{\"text\": \"a\", \"n\": 01}", "not JSON"},
      {"{\"text\": \"a\", \"deep\": " + std::string(5000, '[') + std::string(5000, ']') + "}",
       "not JSON"},
      {std::string(100000, '['), "not JSON"},
      {std::string("{\"text\": \"a\0b\"}", 15), "not JSON"},
      {std::string("\0\0\0\0", 4), "not JSON"},
      {"{\"text\": \"\\ud800\"}", "not JSON"},
      {"{\"txt\": \"a\"}", "no member \"text\" (there is: \"txt\")"},
      {"{}", "no member \"text\" (there is: no members)"},
      {"{\"text\": 5}", "\"text\" is a number, not a string"},
      {"{\"text\": null}", "\"text\" is null, not a string"},
      {"{\"text\": [\"a\"]}", "\"text\" is an array, not a string"},
      {"{\"text\": {\"text\": \"a\"}}", "\"text\" is an object, not a string"},
      {"{\"text\": true}", "\"text\" is a boolean, not a string"},
      {"[\"text\"]", "an array, not an object with a member \"text\""},
      {"\"text\"", "a string, not an object"},
      {"3", "a number, not an object"},
      {"{\"text\": \"caf\xe9\"}", "invalid UTF-8 at byte 14 of the line (0xe9)"},
      {"\xff\xfe{\"text\": \"a\"}", "invalid UTF-8 at byte 1 of the line (0xff)"},
  };
}

TEST(Jsonl, ABadLineIsAnErrorWithItsNumber) {
  for (const Bad& bad : bad_lines()) {
    const std::string bytes = "{\"text\": \"good\"}\n\n" + bad.line + "\n{\"text\": \"later\"}\n";
    EXPECT_THAT(error_of([&] { read(bytes, jsonl(), "dir/file"); }),
                AllOf(StartsWith("dir/file:3: "), HasSubstr(bad.why)))
        << bad.line.substr(0, 60);
  }
}

TEST(Jsonl, TheErrorSaysHowToSkip) {
  try {
    read("x", jsonl());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), HasSubstr("data.on_bad_line = \"skip\""));
  }
}

std::string hint_of(std::string_view bytes, const DataConfig& config, bool command_line) {
  DocumentReader reader(memory_source(bytes, "f"), config, {.command_line = command_line});
  Document document;
  try {
    while (reader.next(document)) {
    }
  } catch (const Error& error) {
    return error.hint();
  }
  return "no error";
}

TEST(Reports, HintsSpellSettingsAsTheReaderWasAsked) {
  EXPECT_THAT(hint_of("x", jsonl(), true), HasSubstr("--on-bad-line skip"));
  EXPECT_THAT(hint_of("x", jsonl("skip"), true), HasSubstr("--on-bad-line fail"));
  EXPECT_THAT(hint_of("\xff", jsonl(), false), AllOf(HasSubstr("data.invalid_utf8 = \"replace\""),
                                                     HasSubstr("data.on_bad_line = \"skip\"")));
  EXPECT_THAT(hint_of("\xff", jsonl(), true), HasSubstr("--invalid-utf8 replace"));
  // Passing over the only document of a file is no way out.
  EXPECT_EQ(hint_of("\xff", text("file"), true),
            "give --invalid-utf8 replace to put U+FFFD in the place of such bytes");
  DataConfig small = text("file");
  small.max_document_bytes = 2;
  EXPECT_THAT(hint_of("longer", small, true), HasSubstr("--text-documents blank_lines"));
}

TEST(Reports, AFileOfBadLinesIsNoErrorForOneWhoIsTold) {
  int told = 0;
  DocumentReader reader(memory_source("x\ny\n", "f"), jsonl("skip"),
                        {.on_skipped = [&](auto...) { ++told; }});
  Document document;
  EXPECT_FALSE(reader.next(document));
  EXPECT_EQ(told, 2);
  DocumentReader empty(memory_source("", "f"), jsonl("skip"), {.on_skipped = [](auto...) {}});
  EXPECT_THAT(error_of([&] { empty.next(document); }), HasSubstr("f is empty"));
}

TEST(Reports, EachSkippedLineIsTold) {
  std::vector<std::pair<BadLine, std::int64_t>> told;
  DocumentReader reader(
      memory_source("x\n{\"text\": \"a\"}\n{\"body\": 1}\n\n{\"text\": 3}\n\"\xff\"\n", "f"),
      jsonl("skip"), {.on_skipped = [&](BadLine kind, std::int64_t line, const std::string& why) {
        EXPECT_FALSE(why.empty());
        told.emplace_back(kind, line);
      }});
  Document document;
  while (reader.next(document)) {
  }
  EXPECT_THAT(told, ElementsAre(Pair(BadLine::kNotJson, 1), Pair(BadLine::kNoText, 3),
                                Pair(BadLine::kNoText, 5), Pair(BadLine::kNotUtf8, 6)));
}

TEST(Jsonl, BadLinesAreSkippedAndCountedWhenAsked) {
  std::string bytes = "{\"text\": \"first\"}\n";
  for (const Bad& bad : bad_lines()) bytes += bad.line + "\n";
  bytes += "{\"text\": \"last\"}";
  const Read got = read(bytes, jsonl("skip"));
  const auto count = static_cast<std::int64_t>(bad_lines().size());
  EXPECT_THAT(got.documents, ElementsAre(Pair("first", 1), Pair("last", count + 2)));
  EXPECT_EQ(got.counts.skipped, count);
  EXPECT_EQ(got.counts.documents, 2);
}

TEST(Jsonl, SkippingEverythingIsAnError) {
  EXPECT_THAT(error_of([] { read("a\nb\nc\n", jsonl("skip"), "f"); }),
              HasSubstr("f holds no usable documents: 3 bad lines"));
}

TEST(Jsonl, AFileWithoutDocumentsIsAnError) {
  EXPECT_THAT(error_of([] { read("", jsonl(), "f"); }), HasSubstr("f is empty"));
  EXPECT_THAT(error_of([] { read("\n \n", jsonl(), "f"); }), HasSubstr("only blank lines"));
}

TEST(Jsonl, LongLinesPassUnlessOverTheLimit) {
  const std::string longer(10 << 20, 'x');
  const std::string bytes = "{\"text\": \"" + longer + "\"}\n{\"text\": \"b\"}\n";
  EXPECT_THAT(read(bytes, jsonl()).documents, ElementsAre(Pair(longer, 1), Pair("b", 2)));
  DataConfig config = jsonl();
  config.max_document_bytes = 1 << 20;
  EXPECT_THAT(error_of([&] { read(bytes, config, "f"); }),
              AllOf(StartsWith("f:1: "), HasSubstr("longer than 1.00 MiB")));
  config.on_bad_line = "skip";
  const Read got = read(bytes, config);
  EXPECT_THAT(got.documents, ElementsAre(Pair("b", 2)));
  EXPECT_EQ(got.counts.skipped, 1);
}

TEST(Jsonl, InvalidUnicodeIsReplacedAndCountedWhenAsked) {
  DataConfig config = jsonl();
  config.invalid_utf8 = "replace";
  const Read got =
      read("{\"text\": \"caf\xe9!\"}\n{\"text\": \"ok\"}\n{\"text\": \"\\ud800 \\ud83d\\ude00\"}\n",
           config);
  EXPECT_THAT(got.documents, ElementsAre(Pair("caf\xef\xbf\xbd!", 1), Pair("ok", 2),
                                         Pair("\xef\xbf\xbd \xf0\x9f\x98\x80", 3)));
  EXPECT_EQ(got.counts.bad_utf8, 2);
}

TEST(Text, AFileIsADocument) {
  EXPECT_THAT(read("\xef\xbb\xbfone\r\n\r\ntwo\n", text("file")).documents,
              ElementsAre(Pair("one\r\n\r\ntwo\n", 1)));
  const std::string longer(3 << 20, 'q');
  EXPECT_THAT(read(longer, text("file")).documents, ElementsAre(Pair(longer, 1)));
  EXPECT_THAT(error_of([] { read("", text("file"), "f"); }), HasSubstr("f is empty"));
}

TEST(Text, AFileOverTheLimitIsAnErrorWithAHint) {
  DataConfig config = text("file");
  config.max_document_bytes = 10;
  try {
    read("more than ten bytes", config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("longer than 10 B"));
    EXPECT_THAT(error.hint(), HasSubstr("blank_lines"));
  }
}

TEST(Text, ALineIsADocument) {
  EXPECT_THAT(read("one\n\n two \r\n", text("line")).documents,
              ElementsAre(Pair("one", 1), Pair(" two ", 3)));
}

TEST(Text, AParagraphIsADocument) {
  EXPECT_THAT(read("\n\none\ntwo\n \t\r\n\nthree\r\nfour", text("blank_lines")).documents,
              ElementsAre(Pair("one\ntwo", 3), Pair("three\nfour", 7)));
  EXPECT_THAT(error_of([] { read("\n\n", text("blank_lines"), "f"); }),
              HasSubstr("only blank lines"));
}

TEST(Text, AParagraphOverTheLimitIsABadLine) {
  DataConfig config = text("blank_lines");
  config.max_document_bytes = 9;
  const std::string bytes = "a\nb\n\n1234\n5678\n90\n\n1234567890\nx\n\n1234\n5678\n\nlast";
  EXPECT_THAT(error_of([&] { read(bytes, config, "f"); }),
              AllOf(StartsWith("f:4: "), HasSubstr("paragraph")));
  config.on_bad_line = "skip";
  const Read got = read(bytes, config);
  EXPECT_THAT(got.documents,
              ElementsAre(Pair("a\nb", 1), Pair("1234\n5678", 11), Pair("last", 14)));
  EXPECT_EQ(got.counts.skipped, 2);
}

TEST(Text, InvalidUtf8NamesTheLineItIsIn) {
  EXPECT_THAT(error_of([] { read("one\ntwo\nth\xc3(\n", text("file"), "f"); }),
              AllOf(StartsWith("f:3: "), HasSubstr("byte 3 of the line (0xc3)")));
  EXPECT_THAT(error_of([] { read("one\n\ntwo\n\xff", text("blank_lines"), "f"); }),
              AllOf(StartsWith("f:4: "), HasSubstr("byte 1 of the line (0xff)")));
  DataConfig config = text("blank_lines");
  config.invalid_utf8 = "replace";
  const Read got = read("a\xff\n\nb", config);
  EXPECT_THAT(got.documents, ElementsAre(Pair("a\xef\xbf\xbd", 1), Pair("b", 3)));
  EXPECT_EQ(got.counts.bad_utf8, 1);
}

TEST(Format, FollowsTheName) {
  EXPECT_EQ(resolve_format("auto", "a.jsonl"), "jsonl");
  EXPECT_EQ(resolve_format("auto", "a.json.gz"), "jsonl");
  EXPECT_EQ(resolve_format("auto", "a.ndjson.zst"), "jsonl");
  EXPECT_EQ(resolve_format("auto", "a.txt"), "text");
  EXPECT_EQ(resolve_format("auto", "a.gz"), "text");
  EXPECT_EQ(resolve_format("text", "a.jsonl"), "text");
}

TEST(Compressed, IsReadAndItsDamageNamed) {
  const TempDir dir;
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += "{\"text\": \"number " + std::to_string(i * i) + "\"}\n";
  const std::string packed = ::plimsoll::testing::gzip(bytes);
  const auto count = [&](const std::string& path) {
    DocumentReader reader(open_byte_source(path), DataConfig{});
    Document document;
    std::int64_t line = 0;
    while (reader.next(document)) EXPECT_EQ(document.line, ++line);
    return line;
  };
  EXPECT_EQ(count(dir.write("a.jsonl.gz", packed)), 1000);
  EXPECT_EQ(count(dir.write("a.jsonl.zst", ::plimsoll::testing::zstd(bytes))), 1000);
  // Not a bad line: on_bad_line = skip must not hide half a file.
  DataConfig config = jsonl("skip");
  const std::string cut = dir.write("b.jsonl.gz", packed.substr(0, packed.size() / 2));
  EXPECT_THAT(error_of([&] {
                DocumentReader reader(open_byte_source(cut), config);
                Document document;
                while (reader.next(document)) {
                }
              }),
              AllOf(StartsWith(cut), HasSubstr("damaged gzip data at byte")));
}

}  // namespace
}  // namespace plimsoll::data
