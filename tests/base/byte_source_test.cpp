#include "plimsoll/base/byte_source.h"

#include "tests/compress.h"
#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::gzip;
using ::plimsoll::testing::TempDir;
using ::plimsoll::testing::zstd;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string drain(ByteSource& source, std::size_t piece) {
  std::string all;
  std::string buffer(piece, '\0');
  while (const std::size_t got = source.read(buffer.data(), buffer.size())) {
    all.append(buffer, 0, got);
  }
  EXPECT_EQ(source.read(buffer.data(), buffer.size()), 0U) << "bytes after the end";
  return all;
}

std::string drain(const std::string& path, std::size_t piece = 4096) {
  return drain(*open_byte_source(path), piece);
}

/// Does not compress to nothing, and is longer than the buffers inside.
std::string long_text() {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < 1500000) {
    state = state * 1664525 + 1013904223;
    text += std::to_string(state >> 12) + (state % 7 == 0 ? "\n" : " ");
  }
  return text;
}

TEST(ByteSource, ReadsPlainGzipAndZstdByContent) {
  const TempDir dir;
  const std::string text = long_text();
  // Names that say nothing, or lie.
  EXPECT_EQ(drain(dir.write("a.gz", text)), text);
  EXPECT_EQ(drain(dir.write("b", gzip(text))), text);
  EXPECT_EQ(drain(dir.write("c.txt", zstd(text))), text);
  EXPECT_EQ(drain(*memory_source(text), 1000), text);
}

TEST(ByteSource, ReadsInPiecesOfAnySize) {
  const TempDir dir;
  const std::string text = long_text().substr(0, 5000);
  const std::string packed = dir.write("b", gzip(text));
  const std::string framed = dir.write("c", zstd(text));
  for (const std::size_t piece : {1, 2, 3, 17, 4999, 5000, 5001, 1 << 20}) {
    EXPECT_EQ(drain(packed, piece), text) << piece;
    EXPECT_EQ(drain(framed, piece), text) << piece;
  }
}

TEST(ByteSource, JoinsMembersAndFrames) {
  const TempDir dir;
  EXPECT_EQ(drain(dir.write("a", gzip("one ") + gzip("") + gzip("two"))), "one two");
  EXPECT_EQ(drain(dir.write("b", zstd("one ") + zstd("") + zstd("two"))), "one two");
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(drain(dir.write("c", skippable + zstd("x") + skippable)), "x");
  EXPECT_EQ(drain(dir.write("d", gzip("x") + std::string(5000, '\0'))), "x") << "zero padding";
}

TEST(ByteSource, HandlesEmptyContents) {
  const TempDir dir;
  EXPECT_EQ(drain(dir.write("a", "")), "");
  EXPECT_EQ(drain(dir.write("b", gzip(""))), "");
  EXPECT_EQ(drain(dir.write("c", zstd(""))), "");
  EXPECT_EQ(drain(dir.write("d", "\x1f")), "\x1f");
}

TEST(ByteSource, RefusesEveryTruncation) {
  const TempDir dir;
  const std::string text = long_text().substr(0, 600);
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    // From 4: before that the first bytes do not say what it is.
    for (std::size_t size = 4; size < whole.size(); ++size) {
      const std::string path = dir.write("cut", whole.substr(0, size));
      EXPECT_THAT(error_of([&] { drain(path); }),
                  AllOf(HasSubstr(path), HasSubstr("at byte " + std::to_string(size)),
                        HasSubstr("the file ends in the middle")));
    }
  }
}

TEST(ByteSource, RefusesDamageAndTrailingRubbish) {
  const TempDir dir;
  const std::string text = long_text().substr(0, 2000);
  std::string damaged = gzip(text);
  damaged[damaged.size() / 2] ^= 0x10;
  EXPECT_THAT(error_of([&] { drain(dir.write("a", damaged)); }),
              HasSubstr("damaged gzip data at byte "));
  EXPECT_THAT(error_of([&] { drain(dir.write("b", gzip(text) + "rubbish")); }),
              HasSubstr("damaged gzip data"));
  EXPECT_THAT(error_of([&] { drain(dir.write("c", zstd(text) + "rubbish")); }),
              HasSubstr("damaged zstd data"));
  std::string header = zstd(text);
  header[4] ^= 0x08;  // a reserved bit
  EXPECT_THAT(error_of([&] { drain(dir.write("d", header)); }), HasSubstr("damaged zstd data"));
}

TEST(ByteSource, SaysWhatIsMissing) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { open_byte_source(dir / "none"); }),
              AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { open_byte_source(dir.path()); }), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace plimsoll
