#include "plimsoll/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/text/tokenizer_writer.h"

namespace plimsoll::text {
namespace {

TrainedBpe train(std::string_view text, TrainerConfig config) {
  BpeTrainer trainer(std::move(config));
  trainer.feed(text);
  return trainer.finish();
}

TrainerConfig entries(int32_t n) {
  TrainerConfig config;
  config.vocab_size = n;
  return config;
}

TEST(BpeTrainer, MergesTheMostFrequentPairFirst) {
  const auto bpe = train("low low low lower lowest", entries(262));
  ASSERT_EQ(bpe.merges.size(), 3u);
  EXPECT_EQ(bpe.merges[0], (std::pair<std::string, std::string>("l", "o")));
  EXPECT_EQ(bpe.merges[1], (std::pair<std::string, std::string>("lo", "w")));
  EXPECT_EQ(bpe.merges[2], (std::pair<std::string, std::string>("\u0120", "low")));
  EXPECT_EQ(bpe.tokens[0], "<|pad|>");
  EXPECT_EQ(bpe.tokens[3], "!");
  EXPECT_EQ(bpe.tokens.back(), "\u0120low");
  EXPECT_EQ(bpe.words, 5);
  EXPECT_EQ(bpe.unique_words, 4);
}

TEST(BpeTrainer, TooLittleTextGivesFewerEntriesAndSaysSo) {
  const auto bpe = train("abc", entries(2048));
  EXPECT_EQ(bpe.size(), 259 + 2);
  EXPECT_FALSE(bpe.complete());
  EXPECT_EQ(train("", entries(300)).size(), 259);
}

TEST(BpeTrainer, RarePairsAreLeftAlone) {
  auto config = entries(2048);
  config.min_frequency = 2;
  const auto bpe = train("ab ab cd", config);
  for (const auto& [left, right] : bpe.merges) EXPECT_NE(left + right, "cd");
  EXPECT_EQ(bpe.merges.size(), 1u);
}

TEST(BpeTrainer, FeedsAddUpAndFinishEmpties) {
  BpeTrainer trainer(entries(280));
  trainer.feed("one two ");
  trainer.feed("one two three");
  EXPECT_EQ(trainer.finish().words, 6);  // the space at the end is a word of its own
  EXPECT_EQ(trainer.finish().words, 0);
}

TEST(BpeTrainer, BadBytesAreReadAsReplacements) {
  EXPECT_EQ(train("\xFF\xFF ab", entries(300)).merges,
            train("\uFFFD\uFFFD ab", entries(300)).merges);
}

template <class Change>
std::string refusal(Change change) {
  TrainerConfig config;
  change(config);
  try {
    BpeTrainer trainer(config);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(BpeTrainer, RefusesWhatCannotWork) {
  EXPECT_EQ(refusal([](auto& c) { c.vocab_size = 258; }), "vocab_size: 258 is too small");
  EXPECT_EQ(refusal([](auto& c) { c.vocab_size = -1; }), "vocab_size: -1 is too small");
  EXPECT_EQ(refusal([](auto& c) { c.special_tokens.push_back("<|pad|>"); }),
            "special_tokens: \"<|pad|>\" stands twice");
  EXPECT_EQ(refusal([](auto& c) { c.special_tokens.push_back(""); }),
            "special_tokens: a special token is empty");
  EXPECT_EQ(refusal([](auto& c) { c.special_tokens.push_back("a"); }),
            "special_tokens: \"a\" is the spelling of a single byte");
  EXPECT_EQ(refusal([](auto& c) { c.eos_token = "</s>"; }),
            "eos_token: \"</s>\" is not one of special_tokens");
  EXPECT_EQ(refusal([](auto& c) { c.pattern = Splitter::kDigits; }),
            "pattern: must be one of the patterns");
}

TEST(TokenizerWriter, WhatWasWrittenLoadsAndRoundTrips) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "plimsoll_writer_test" / "deep";
  std::filesystem::remove_all(folder.parent_path());
  for (const Splitter pattern : {Splitter::kGpt2, Splitter::kCl100k1, Splitter::kCl100k3}) {
    auto config = entries(300);
    config.pattern = pattern;
    config.special_tokens.push_back("quote\"back\\slash\n\u0120");
    write_tokenizer(train("She said \"no\\yes\" 12345 times; she said it's so.", config), folder);
    const auto tokenizer = Tokenizer::load(folder);
    EXPECT_EQ(tokenizer.pad(), 0);
    EXPECT_EQ(tokenizer.bos(), 1);
    EXPECT_EQ(tokenizer.eos(), 2);
    EXPECT_EQ(tokenizer.id_of(config.special_tokens[3]), 3);
    const std::string text = "She said \"12345\\n\"\n\u00e9\u4e2d";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    EXPECT_LT(tokenizer.encode(text).size(), text.size());
  }
  size_t files = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder)) ++files;
  EXPECT_EQ(files, 2u);  // nothing aside is left
  std::filesystem::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace plimsoll::text
