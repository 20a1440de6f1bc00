// Against tests/golden/tokenizer.json, which Hugging Face wrote (tests/golden/tokenizer.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/files.h"
#include "plimsoll/text/bpe_trainer.h"
#include "plimsoll/text/stream_decoder.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/text/tokenizer_writer.h"

namespace plimsoll::text {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json =
      Json::parse(read_file(PLIMSOLL_SOURCE_DIR "/tests/golden/tokenizer.json"));
  return json;
}

class Family : public testing::TestWithParam<int> {
 protected:
  const Json& family() const { return golden()["families"][static_cast<size_t>(GetParam())]; }
  std::string name() const { return family()["name"]; }
  Tokenizer tokenizer() const {
    Json file = golden()["base"];
    file.merge_patch(family()["patch"]);
    return Tokenizer::parse(file.dump(), name());
  }
};

TEST_P(Family, IdsAndTextEqualHuggingFace) {
  const Tokenizer tokenizer = this->tokenizer();
  for (int pass = 0; pass < 2; ++pass) {  // the second from the cache
    for (size_t i = 0; i < golden()["strings"].size(); ++i) {
      const std::string text = golden()["strings"][i];
      const auto ids = tokenizer.encode(text);
      ASSERT_EQ(ids, family()["ids"][i].get<std::vector<int32_t>>()) << name() << ": " << text;
      const Json& decoded = family()["decoded"][i];
      const std::string expected = decoded.is_null() ? text : decoded.get<std::string>();
      ASSERT_EQ(tokenizer.decode(ids, false), expected) << name() << ": " << text;

      StreamDecoder stream(tokenizer, false);
      std::string pieces;
      for (const int32_t id : ids) pieces += stream.feed(id);
      ASSERT_EQ(pieces + stream.finish(), expected) << name() << ": " << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Family, testing::Range(0, 12));

TEST(Golden, AllFamiliesAreTested) {
  EXPECT_EQ(golden()["families"].size(), 12u);
}

TEST(Golden, TrainedMergesEqualHuggingFace) {
  TrainerConfig config;
  config.vocab_size = 460;
  BpeTrainer trainer(config);
  trainer.feed(golden()["corpus"].get<std::string>());
  const TrainedBpe bpe = trainer.finish();
  EXPECT_TRUE(bpe.complete());
  const Json file = Json::parse(tokenizer_json(bpe));
  EXPECT_EQ(file["model"]["merges"], golden()["base"]["model"]["merges"]);
  EXPECT_EQ(file["model"]["vocab"], golden()["base"]["model"]["vocab"]);
  EXPECT_EQ(file["added_tokens"], golden()["base"]["added_tokens"]);
}

}  // namespace
}  // namespace plimsoll::text
