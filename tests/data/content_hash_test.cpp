#include "plimsoll/data/content_hash.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "plimsoll/base/files.h"
#include "plimsoll/base/hash.h"
#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(ContentHash, IsThatOfTheBytes) {
  const TempDir dir;
  const std::string bytes(3000000, 'z');
  const ContentHash hash = content_hash(dir.write("x", bytes), dir / "memo");
  EXPECT_EQ(hash.hash, xxh3_hex(bytes));
  EXPECT_EQ(hash.stamp.size, 3000000);
  EXPECT_THAT(error_of([&] { content_hash(dir / "none", dir / "memo"); }), HasSubstr("none"));
}

TEST(ContentHash, DoesNotRememberAFileOfThisMoment) {
  const TempDir dir;
  const std::string path = dir.write("x", "one");
  content_hash(path, dir / "memo");
  EXPECT_FALSE(fs::exists(dir / "memo"));
  dir.write("x", "two");
  EXPECT_EQ(content_hash(path, dir / "memo").hash, xxh3_hex("two"));
}

TEST(ContentHash, RemembersAndForgetsByStamp) {
  // A system file that nobody changes and that is older than two seconds.
  const fs::path path = "/usr/include/xxhash.h";
  const TempDir dir;
  const std::string hash = content_hash(path, dir / "memo").hash;
  fs::path memo;
  for (const auto& entry : fs::directory_iterator(dir / "memo")) memo = entry.path();
  ASSERT_FALSE(memo.empty());

  // What the memo says is believed ...
  std::string stored = read_file(memo);
  const std::size_t at = stored.find(hash);
  ASSERT_NE(at, std::string::npos);
  const std::string planted(32, '7');
  write_file_atomic(memo, stored.substr(0, at) + planted + stored.substr(at + 32));
  EXPECT_EQ(content_hash(path, dir / "memo").hash, planted);
  // ... unless it is of another state of the file ...
  const std::size_t size = stored.find("\"size\":");
  ASSERT_NE(size, std::string::npos);
  stored.insert(size + 7, "9");
  write_file_atomic(memo, stored);
  EXPECT_EQ(content_hash(path, dir / "memo").hash, hash);
  // ... or damaged.
  write_file_atomic(memo, "{\"file\":");
  EXPECT_EQ(content_hash(path, dir / "memo").hash, hash);
}

}  // namespace
}  // namespace plimsoll::data
