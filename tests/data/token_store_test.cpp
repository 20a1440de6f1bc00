#include "plimsoll/data/token_store.h"

#include <cstddef>
#include <cstring>

#include "plimsoll/base/hash.h"
#include "plimsoll/data/token_file.h"
#include "tests/data/make_store.h"
#include "tests/expect_error.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::AllOf;
using testing::byte_tokenizer;
using ::testing::HasSubstr;
using testing::make_store;
using testing::token_of;

TEST(TokenStore, GivesBackEveryToken) {
  const TempDir dir;
  const std::vector<std::int64_t> lengths = {2, 500, 3, 4096, 2};
  const auto store = make_store(dir, lengths);
  ASSERT_EQ(store->documents(), 5);
  EXPECT_EQ(store->stats().tokens, 4603);
  for (std::int64_t d = 0; d < 5; ++d) {
    const std::int64_t length = lengths[static_cast<std::size_t>(d)];
    ASSERT_EQ(store->length(d), length);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    store->copy(d, 0, length, ids.data());
    for (std::int64_t j = 0; j < length; ++j) {
      ASSERT_EQ(ids[static_cast<std::size_t>(j)], token_of(d, j));
    }
    store->copy(d, length - 1, 1, ids.data());
    EXPECT_EQ(ids[0], token_of(d, length - 1));
  }
  store->verify();
}

/// A small whole file, as bytes.
std::string whole_file(const TempDir& dir) {
  DataConfig config;
  config.text_documents = "line";
  config.cache_dir = (dir / "cache").string();
  const auto store =
      open_token_store({dir.write("t", "one\ntwo two\n3\n")}, config, byte_tokenizer());
  return read_file(store->path());
}

/// Changes the header and makes its checksum right again.
template <typename Change>
std::string with_header(std::string bytes, Change&& change) {
  TokenFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  change(header);
  header.checksum =
      xxh3_64({reinterpret_cast<const char*>(&header), offsetof(TokenFileHeader, checksum)});
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

TEST(TokenStore, RefusesEveryTruncationAndExtension) {
  const TempDir dir;
  const std::string whole = whole_file(dir);
  TokenStore{dir.write("whole", whole)};
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(error_of([&] { TokenStore{dir.write("cut", whole.substr(0, size))}; }),
                AllOf(HasSubstr("cut"), HasSubstr("not a whole token store")));
  }
  EXPECT_THAT(error_of([&] { TokenStore{dir.write("more", whole + "x")}; }),
              HasSubstr("not a whole token store"));
}

TEST(TokenStore, RefusesEveryFlippedBitOutsideTheTokens) {
  const TempDir dir;
  const std::string whole = whole_file(dir);
  TokenFileHeader header;
  std::memcpy(&header, whole.data(), sizeof(header));
  const std::size_t tokens_end =
      sizeof(header) + static_cast<std::size_t>(header.tokens) * header.id_bytes;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] ^= 0x20;
    const std::string path = dir.write("flipped", flipped);
    if (at >= sizeof(header) && at < tokens_end) {
      EXPECT_THAT(error_of([&] { TokenStore(path).verify(); }), HasSubstr("tokens do not match"));
    } else if (at < sizeof(header) || at >= header.index_offset) {
      EXPECT_THAT(error_of([&] { TokenStore{path}; }), HasSubstr("not a whole token store"));
    }
  }
}

TEST(TokenStore, RefusesLiesWithARightChecksum) {
  const TempDir dir;
  const std::string whole = whole_file(dir);
  const auto refuses = [&](auto&& change) {
    EXPECT_THAT(error_of([&] { TokenStore{dir.write("lie", with_header(whole, change))}; }),
                HasSubstr("not a whole token store"));
  };
  refuses([](TokenFileHeader& h) { h.version = 2; });
  refuses([](TokenFileHeader& h) { h.id_bytes = 4; });
  refuses([](TokenFileHeader& h) { h.id_bytes = 0; });
  refuses([](TokenFileHeader& h) { h.documents = 0; });
  refuses([](TokenFileHeader& h) { h.documents = -1; });
  refuses([](TokenFileHeader& h) { h.documents = INT64_MAX; });
  refuses([](TokenFileHeader& h) { h.documents -= 1; });
  refuses([](TokenFileHeader& h) { h.tokens = INT64_MAX; });
  refuses([](TokenFileHeader& h) { h.tokens = -1; });
  refuses([](TokenFileHeader& h) { h.tokens += 1; });
  refuses([](TokenFileHeader& h) { h.index_offset = UINT64_MAX - 7; });
  refuses([](TokenFileHeader& h) { h.vocab_size = 0; });
  refuses([](TokenFileHeader& h) { h.vocab_size = 70000; });

  // An index that runs backwards, with its own checksum right.
  std::string backwards = whole;
  TokenFileHeader header;
  std::memcpy(&header, whole.data(), sizeof(header));
  const std::uint64_t far = 1 << 20;
  std::memcpy(backwards.data() + header.index_offset + 8, &far, sizeof(far));
  backwards = with_header(backwards, [&](TokenFileHeader& h) {
    xxh3_hex(std::string_view(backwards).substr(h.index_offset)).copy(h.index_hash, 32);
  });
  EXPECT_THAT(error_of([&] { TokenStore{dir.write("lie", backwards)}; }),
              HasSubstr("document 1 has no room"));
  const std::string small = with_header(whole, [](TokenFileHeader& h) { h.vocab_size = 5; });
  EXPECT_THAT(error_of([&] { TokenStore(dir.write("lie", small)).verify(); }),
              HasSubstr("the vocabulary has 5"));
}

}  // namespace
}  // namespace plimsoll::data
