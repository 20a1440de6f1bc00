#include "plimsoll/base/hash.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Hash, HasTheValuesOfTheAlgorithm) {
  // Of the reference tool: printf abc | xxhsum -H2, and of nothing.
  EXPECT_EQ(xxh3_hex(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(xxh3_hex("abc"), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash, InPiecesEqualsAtOnce) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 37);
  for (const std::size_t piece : {1, 7, 240, 241, 1024, 4999}) {
    Xxh3 hash;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      hash.update(std::string_view(bytes).substr(at, piece));
    }
    EXPECT_EQ(hash.hex(), xxh3_hex(bytes)) << piece;
  }
}

TEST(Hash, GoesOnAfterADigest) {
  Xxh3 hash;
  hash.update("ab");
  EXPECT_EQ(hash.hex(), xxh3_hex("ab"));
  hash.update("c");
  EXPECT_EQ(hash.hex(), xxh3_hex("abc"));
}

}  // namespace
}  // namespace plimsoll
