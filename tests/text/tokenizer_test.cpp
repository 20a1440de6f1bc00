#include "plimsoll/text/tokenizer.h"

#include <gtest/gtest.h>

#include <latch>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/text/bpe_trainer.h"
#include "plimsoll/text/stream_decoder.h"
#include "plimsoll/text/tokenizer_writer.h"
#include "plimsoll/text/unicode.h"

namespace plimsoll::text {
namespace {

namespace fs = std::filesystem;

const TrainedBpe& trained() {
  static const TrainedBpe bpe = [] {
    TrainerConfig config;
    config.vocab_size = 400;
    BpeTrainer trainer(config);
    std::mt19937 random(1);
    std::string text;
    for (int i = 0; i < 3000; ++i) {
      const char* syllables[] = {"ka", "lo", "mi ", " te", "\u00e9", "\u65e5\u672c", "1", ".\n"};
      text += syllables[random() % 8];
    }
    trainer.feed(text);
    return trainer.finish();
  }();
  return bpe;
}

const Tokenizer& tokenizer() {
  static const Tokenizer t = Tokenizer::parse(tokenizer_json(trained()), "t/tokenizer.json",
                                              tokenizer_config_json(trained()));
  return t;
}

std::string random_text(std::mt19937& random, size_t characters) {
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    const uint32_t limits[] = {0x80, 0x80, 0x300, 0x3100, 0x10000, 0x110000};
    const uint32_t c = random() % limits[random() % 6];
    if (c < 0xD800 || c >= 0xE000) append_utf8(c, text);
  }
  return text;
}

TEST(Tokenizer, DecodeUndoesEncodeOnAnyText) {
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random, random() % 60);
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(text)), text);
  }
}

TEST(Tokenizer, InvalidBytesAreReadAsReplacements) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& b : bytes) b = static_cast<char>(random() % 3 ? random() : 0xE4 + random() % 20);
    std::string repaired;
    repair_utf8(bytes, false, repaired);
    // Exactly as long as the text, so that a read past its end is seen by the sanitizer.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto ids = tokenizer().encode({exact.data(), exact.size()});
    ASSERT_EQ(ids, tokenizer().encode(repaired));
    ASSERT_EQ(tokenizer().decode(ids), repaired);
  }
}

TEST(Tokenizer, SpecialTokensInTheText) {
  const std::string text = "a<|end_of_text|>b";
  const auto known = tokenizer().encode(text);
  EXPECT_EQ(known.size(), 3u);
  EXPECT_EQ(known[1], tokenizer().eos());
  EXPECT_EQ(tokenizer().decode(known), "ab");
  EXPECT_EQ(tokenizer().decode(known, false), text);
  const auto plain = tokenizer().encode(text, SpecialTokens::kAsText);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), *tokenizer().eos()), 0);
  EXPECT_EQ(tokenizer().decode(plain), text);
}

TEST(Tokenizer, Accessors) {
  const auto& t = tokenizer();
  EXPECT_EQ(t.size(), 400);
  EXPECT_EQ(t.pad(), 0);
  EXPECT_EQ(t.bos(), 1);
  EXPECT_EQ(t.eos(), 2);
  EXPECT_EQ(t.id_of("<|pad|>"), 0);
  EXPECT_EQ(t.id_of("no such token"), std::nullopt);
  EXPECT_EQ(t.token(2), "<|end_of_text|>");
  const int32_t space = t.encode(" ").at(0);
  EXPECT_EQ(t.token(space), "\u0120");
  EXPECT_EQ(t.bytes(space), " ");
  EXPECT_TRUE(t.is_special(1));
  EXPECT_FALSE(t.is_special(space));
  for (const int32_t id : {-1, 400, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(t.token(id), "");
    EXPECT_EQ(t.bytes(id), "");
    EXPECT_FALSE(t.is_special(id));
    EXPECT_EQ(t.decode(std::vector<int32_t>{id, space}), " ");
  }
}

TEST(Tokenizer, FingerprintFollowsWhatChangesIds) {
  const std::string json = tokenizer_json(trained()), config = tokenizer_config_json(trained());
  const auto of = [](const std::string& j, const std::string& c) {
    return Tokenizer::parse(j, "x", c).fingerprint();
  };
  EXPECT_EQ(of(json, config), tokenizer().fingerprint());
  EXPECT_NE(of(json, ""), tokenizer().fingerprint());  // no EOS
  auto chat = nlohmann::json::parse(config);
  chat["chat_template"] = "{{ messages }}";
  EXPECT_EQ(of(json, chat.dump()), tokenizer().fingerprint());
  auto fewer = nlohmann::json::parse(json);
  fewer["model"]["merges"].erase(fewer["model"]["merges"].size() - 1);
  EXPECT_NE(of(fewer.dump(), config), tokenizer().fingerprint());
}

TEST(Tokenizer, ManyThreadsGiveTheSameIds) {
  std::mt19937 random(4);
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> expected;
  for (int i = 0; i < 100; ++i) {
    texts.push_back(random_text(random, 200));
    expected.push_back(tokenizer().encode(texts.back()));
  }
  // A fresh one, so that the threads meet on empty caches.
  const auto shared = Tokenizer::parse(tokenizer_json(trained()), "shared");
  constexpr int kThreads = 6;
  std::latch start(kThreads);
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t, copy = shared] {
      start.arrive_and_wait();
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t at = (i + static_cast<size_t>(t) * 17) % texts.size();
        const auto ids = copy.encode(texts[at]);
        wrong[static_cast<size_t>(t)] += ids != expected[at] || copy.decode(ids) != texts[at];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  const auto id = [](char b) {
    return *tokenizer().id_of([&] {
      const auto ids = tokenizer().encode(std::string(1, b));
      return tokenizer().token(ids.at(0));
    }());
  };
  StreamDecoder stream(tokenizer());
  EXPECT_EQ(stream.feed(id('a')), "a");
  // The bytes of U+1F680 one by one, by the tokens that spell them.
  std::vector<int32_t> bytes;
  for (int32_t i = 0; i < tokenizer().size(); ++i) {
    for (const char b : std::string("\xF0\x9F\x9A\x80")) {
      if (tokenizer().bytes(i) == std::string(1, b)) bytes.push_back(i);
    }
  }
  ASSERT_EQ(bytes.size(), 4u);
  const auto token_of = [&](const char* b) {
    for (const int32_t i : bytes) {
      if (tokenizer().bytes(i) == b) return i;
    }
    return -1;
  };
  EXPECT_EQ(stream.feed(token_of("\xF0")), "");
  EXPECT_EQ(stream.feed(token_of("\x9F")), "");
  EXPECT_EQ(stream.feed(*tokenizer().eos()), "");  // skipped, and breaks nothing
  EXPECT_EQ(stream.feed(token_of("\x9A")), "");
  EXPECT_EQ(stream.feed(token_of("\x80")), "\U0001F680");
  EXPECT_EQ(stream.feed(token_of("\xF0")), "");
  EXPECT_EQ(stream.feed(id('b')), "\uFFFDb");
  EXPECT_EQ(stream.feed(token_of("\xF0")), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.feed(id('c')), "c");
}

TEST(Tokenizer, LoadsAFileOrItsFolderAndSaysWhatIsMissing) {
  const fs::path folder = fs::path(testing::TempDir()) / "plimsoll_tokenizer_test";
  fs::remove_all(folder);
  try {
    Tokenizer::load(folder);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.what(), "no tokenizer at " + folder.string());
    EXPECT_NE(e.hint().find("tokenizer train"), std::string::npos);
  }
  write_tokenizer(trained(), folder);
  EXPECT_EQ(Tokenizer::load(folder).fingerprint(), tokenizer().fingerprint());
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json").fingerprint(), tokenizer().fingerprint());
  fs::remove(folder / "tokenizer_config.json");
  EXPECT_EQ(Tokenizer::load(folder).eos(), std::nullopt);
  // 100 MB of junk is refused by its size, before it is read.
  fs::resize_file(folder / "tokenizer.json", size_t{100} << 20);
  try {
    Tokenizer::load(folder);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("104857600 bytes, more than the"), std::string::npos);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace plimsoll::text
