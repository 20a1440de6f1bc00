// open_token_store: building, finding again, and what goes wrong.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/compress.h"
#include "tests/data/make_store.h"
#include "tests/expect_error.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::AllOf;
using testing::byte_tokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class TokenCache : public ::testing::Test {
 protected:
  TokenCache() {
    config_.cache_dir = (dir_ / "cache").string();
    config_.text_documents = "line";
    const auto encode = tokenizer_.encode;
    tokenizer_.encode = [this, encode](std::string_view text, std::vector<std::int32_t>& ids) {
      if (!text.empty()) ++encoded_;
      encode(text, ids);
    };
  }

  std::shared_ptr<const TokenStore> open(const std::vector<std::string>& files) {
    return open_token_store(files, config_, tokenizer_);
  }
  static std::vector<std::int32_t> tokens(const TokenStore& store, std::int64_t document) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(store.length(document)));
    store.copy(document, 0, store.length(document), ids.data());
    return ids;
  }
  /// Names in the cache folder that are neither stores nor memos.
  std::vector<std::string> stray() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(config_.cache_dir)) {
      const fs::path name = entry.path().filename();
      if (name.extension() != ".tokens" && name != "hashes") names.push_back(name.string());
    }
    return names;
  }

  TempDir dir_;
  DataConfig config_;
  TokenizerView tokenizer_ = byte_tokenizer();
  int encoded_ = 0;
};

TEST_F(TokenCache, TokenisesOnceAndKeepsStatistics) {
  const std::vector<std::string> files = {
      dir_.write("a.txt", "ab\n\ncd\n"),
      dir_.write("b.jsonl.gz", ::plimsoll::testing::gzip("{\"text\": \"xyz\"}\nbad\n"))};
  config_.on_bad_line = "skip";
  const auto store = open(files);
  EXPECT_EQ(encoded_, 3);
  ASSERT_EQ(store->documents(), 3);
  EXPECT_THAT(tokens(*store, 0), ElementsAre(256, 'a', 'b', 257));
  EXPECT_THAT(tokens(*store, 2), ElementsAre(256, 'x', 'y', 'z', 257));
  EXPECT_EQ(store->stats().tokens, 13);
  EXPECT_EQ(store->stats().bytes, 7);
  EXPECT_EQ(store->stats().skipped_lines, 1);
  EXPECT_EQ(store->vocab_size(), 258);

  const auto again = open(files);
  EXPECT_EQ(encoded_, 3) << "tokenised again";
  EXPECT_EQ(again->key(), store->key());
  EXPECT_EQ(again->stats().tokens, 13);
  EXPECT_THAT(stray(), ElementsAre());
}

TEST_F(TokenCache, IsKeyedByContentNotByName) {
  const auto first = open({dir_.write("a.txt", "same\n")});
  EXPECT_EQ(open({dir_.write("b.txt", "same\n")})->key(), first->key());
  EXPECT_EQ(encoded_, 1);
  EXPECT_NE(open({dir_.write("a.txt", "other\n")})->key(), first->key());
}

TEST_F(TokenCache, EveryOptionThatMattersGivesAnotherKey) {
  const std::vector<std::string> files = {
      dir_.write("a.txt", "{\"text\": \"ab\", \"u\": \"c\"}\n")};
  std::vector<std::string> keys = {open(files)->key()};
  const auto changed = [&](auto&& change) {
    const DataConfig config = config_;
    const TokenizerView tokenizer = tokenizer_;
    change();
    keys.push_back(open(files)->key());
    config_ = config;
    tokenizer_ = tokenizer;
  };
  changed([&] { config_.format = "jsonl"; });
  changed([&] { config_.text_documents = "file"; });
  changed([&] { config_.on_bad_line = "skip"; });
  changed([&] { config_.invalid_utf8 = "replace"; });
  changed([&] { config_.max_document_bytes = 1000; });
  changed([&] { config_.add_bos = false; });
  changed([&] { config_.add_eos = false; });
  changed([&] { tokenizer_.fingerprint = "bytes 2"; });
  changed([&] { tokenizer_.eos = 256; });
  changed([&] { tokenizer_.vocab_size = 300; });
  changed([&] {
    config_.format = "jsonl";
    config_.text_field = "u";
  });
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  // These change nothing in the tokens.
  const std::string key = open(files)->key();
  config_.shuffle = false;
  config_.packing = "first_fit";
  EXPECT_EQ(open(files)->key(), key);
}

TEST_F(TokenCache, UsesTwoBytesWhereTheyDo) {
  const std::string file = dir_.write("a.txt", std::string(998, 'x') + "\n");
  const auto narrow = open({file});
  tokenizer_.vocab_size = 65536;
  tokenizer_.bos = 65535;
  const auto limit = open({file});
  EXPECT_THAT(tokens(*limit, 0).front(), 65535);
  tokenizer_.vocab_size = 65537;
  tokenizer_.bos = 65536;
  const auto wide = open({file});
  EXPECT_THAT(tokens(*wide, 0).front(), 65536);
  EXPECT_EQ(fs::file_size(narrow->path()), fs::file_size(limit->path()));
  EXPECT_EQ(fs::file_size(wide->path()) - fs::file_size(limit->path()), 2000U);
}

TEST_F(TokenCache, DropsDocumentsUnderTwoTokens) {
  config_.add_bos = config_.add_eos = false;
  const auto store = open({dir_.write("a.txt", "a\nbc\nd\n")});
  EXPECT_EQ(store->documents(), 1);
  EXPECT_EQ(store->stats().dropped_short, 2);
  EXPECT_EQ(store->stats().bytes, 4);
  EXPECT_THAT(error_of([&] { open({dir_.write("b.txt", "a\nb\n")}); }),
              HasSubstr("holds no document of 2 tokens or more (2 shorter ones)"));
  EXPECT_THAT(stray(), ElementsAre());
}

TEST_F(TokenCache, DoesNotAddWhatTheTokenizerAdded) {
  tokenizer_.encode = [](std::string_view, std::vector<std::int32_t>& ids) { ids = {256, 1, 257}; };
  EXPECT_THAT(tokens(*open({dir_.write("a.txt", "x\n")}), 0), ElementsAre(256, 1, 257));
}

TEST_F(TokenCache, RefusesWhatTheTokenizerLacks) {
  const std::string file = dir_.write("a.txt", "x\n");
  tokenizer_.bos = -1;
  EXPECT_THAT(error_of([&] { open({file}); }), HasSubstr("data.add_bos = true"));
  tokenizer_.bos = 258;
  EXPECT_THAT(error_of([&] { open({file}); }), HasSubstr("has id 258, its vocabulary has 258"));
  tokenizer_.bos = 1;
  tokenizer_.vocab_size = 100;
  tokenizer_.eos = 2;
  EXPECT_THAT(error_of([&] { open({file}); }),
              AllOf(HasSubstr("a.txt:1: "), HasSubstr("gave id 120, its vocabulary has 100")));
  EXPECT_THAT(stray(), ElementsAre());
}

TEST_F(TokenCache, AFailedBuildLeavesNothing) {
  EXPECT_THAT(error_of([&] { open({dir_.write("a.jsonl", "{\"text\": \"ok\"}\nbad\n")}); }),
              HasSubstr("a.jsonl:2: not JSON"));
  EXPECT_THAT(error_of([&] {
                open({dir_.write("c.txt", "x\n"), dir_.write("d.txt", "")});
              }),
              HasSubstr("d.txt is empty"));
  EXPECT_THAT(error_of([&] { open({(dir_ / "none").string()}); }), HasSubstr("none"));
  for (const auto& entry : fs::directory_iterator(config_.cache_dir)) {
    EXPECT_EQ(entry.path().filename(), "hashes") << "left behind";
  }
}

TEST_F(TokenCache, ProgressCanEndTheBuild) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += std::string(100, 'x') + "\n";
  const std::vector<std::string> files = {dir_.write("a.txt", text)};
  std::int64_t calls = 0;
  EXPECT_THAT(error_of([&] {
                open_token_store(files, config_, tokenizer_, [&](const BuildProgress& progress) {
                  EXPECT_EQ(progress.file, files[0]);
                  EXPECT_GE(progress.bytes, (calls + 1) << 20);
                  if (++calls == 2) throw Error("stopped");
                });
              }),
              HasSubstr("stopped"));
  EXPECT_THAT(stray(), ElementsAre());
  EXPECT_EQ(open(files)->documents(), 30000);
}

TEST_F(TokenCache, ADamagedStoreIsBuiltAgain) {
  const std::vector<std::string> files = {dir_.write("a.txt", "abc\n")};
  const fs::path path = open(files)->path();
  for (const std::string& damage : {std::string(), std::string("rubbish"), std::string(5000, '\0'),
                                    read_file(path).substr(0, 270)}) {
    write_file_atomic(path, damage);
    encoded_ = 0;
    EXPECT_EQ(open(files)->documents(), 1);
    EXPECT_EQ(encoded_, 1);
  }
}

TEST_F(TokenCache, AFileThatChangesMeanwhileIsAnError) {
  const std::string file = dir_.write("a.txt", "one\ntwo\n");
  const auto encode = tokenizer_.encode;
  tokenizer_.encode = [&](std::string_view text, std::vector<std::int32_t>& ids) {
    encode(text, ids);
    dir_.write("a.txt", "something longer\n");
  };
  EXPECT_THAT(error_of([&] { open({file}); }), HasSubstr("a.txt changed while it was read"));
}

TEST_F(TokenCache, ACacheThatCannotBeWrittenSaysSoAndOneThatIsFullStillOpens) {
  const std::string file = dir_.write("a.txt", "abc\n");
  const std::string other = dir_.write("b.txt", "def\n");
  open({file});
  fs::permissions(dir_.path(), fs::perms(0755));
  fs::permissions(config_.cache_dir, fs::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) {
    // Root writes anywhere.
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(77);
    int code = 0;
    try {
      if (open({file})->documents() != 1) code = 1;
    } catch (const std::exception&) {
      code = 2;
    }
    try {
      open({other});
      code = 3;
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.find("cache of tokens cannot be written") == std::string_view::npos ||
          what.find("Permission denied") == std::string_view::npos ||
          error.hint().find("data.cache_dir") == std::string::npos) {
        code = 4;
      }
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  fs::permissions(config_.cache_dir, fs::perms(0755));
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  config_.cache_dir = file + "/below";
  EXPECT_THAT(error_of([&] { open({other}); }), HasSubstr("cannot be written"));
}

/// True once the kernel shows the process waiting for a file lock; also true where it shows none.
bool waits_for_lock(pid_t process) {
  std::ifstream locks("/proc/locks");
  if (!locks) return true;
  const std::string pid = " " + std::to_string(process) + " ";
  for (std::string line; std::getline(locks, line);) {
    if (line.find("->") != std::string::npos && line.find(pid) != std::string::npos) return true;
  }
  return false;
}

TEST_F(TokenCache, OfTwoProcessesOneBuildsAndTheOtherWaits) {
  const std::vector<std::string> files = {dir_.write("a.txt", "one\ntwo\nthree\n")};
  const std::string log = (dir_ / "log").string();
  int building[2];
  int go_on[2];
  ASSERT_EQ(::pipe(building), 0);
  ASSERT_EQ(::pipe(go_on), 0);
  const auto encode = byte_tokenizer().encode;
  const auto run = [&](char who, bool gate) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    int code = 1;
    try {
      tokenizer_.encode = [&](std::string_view text, std::vector<std::int32_t>& ids) {
        if (!text.empty()) std::ofstream(log, std::ios::app) << who;
        if (gate && text == "one") {
          char byte = 0;
          if (::write(building[1], "x", 1) != 1 || ::read(go_on[0], &byte, 1) != 1) ::_exit(5);
        }
        encode(text, ids);
      };
      const auto store = open(files);
      store->verify();
      code = store->documents() == 3 ? 0 : 2;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%c: %s\n", who, error.what());
    }
    ::_exit(code);
  };
  const pid_t first = run('1', true);
  char byte = 0;
  ASSERT_EQ(::read(building[0], &byte, 1), 1) << "the first never began";
  const pid_t second = run('2', false);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!waits_for_lock(second) && std::chrono::steady_clock::now() < deadline) ::sched_yield();
  ASSERT_EQ(::write(go_on[1], "x", 1), 1);
  for (const pid_t child : {first, second}) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(read_file(log), "111") << "the second must not tokenise";
  EXPECT_THAT(stray(), ElementsAre());
  for (const int fd : {building[0], building[1], go_on[0], go_on[1]}) ::close(fd);
}

TEST_F(TokenCache, ABuilderThatIsKilledLeavesNoObstacle) {
  const std::vector<std::string> files = {dir_.write("a.txt", "one\ntwo\n")};
  const pid_t child = ::fork();
  if (child == 0) {
    tokenizer_.encode = [](std::string_view, std::vector<std::int32_t>&) {
      ::kill(::getpid(), SIGKILL);
    };
    open(files);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(stray().size(), 3U) << "two temps and the lock";
  EXPECT_EQ(open(files)->documents(), 2);
  EXPECT_THAT(stray(), ElementsAre());
}

TEST_F(TokenCache, ManyThreadsShareOneBuild) {
  const std::vector<std::string> files = {dir_.write("a.txt", "one\ntwo\n")};
  std::atomic<int> encoded = 0;
  const auto encode = byte_tokenizer().encode;
  tokenizer_.encode = [&](std::string_view text, std::vector<std::int32_t>& ids) {
    if (!text.empty()) ++encoded;
    encode(text, ids);
  };
  std::vector<std::shared_ptr<const TokenStore>> stores(4);
  std::vector<std::thread> threads;
  for (auto& store : stores) threads.emplace_back([&] { store = open(files); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(encoded, 2);
  for (const auto& store : stores) EXPECT_EQ(store->key(), stores[0]->key());
}

}  // namespace
}  // namespace plimsoll::data
