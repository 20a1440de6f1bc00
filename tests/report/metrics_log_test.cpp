#include "plimsoll/report/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>

#include "plimsoll/base/error.h"
#include "tests/report/folder.h"

namespace plimsoll::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StepRecord at(int64_t step, double loss = 1.5) {
  StepRecord r;
  r.step = step;
  r.loss = loss;
  return r;
}

std::vector<int64_t> steps_of(const std::filesystem::path& file) {
  std::vector<int64_t> steps;
  for (const StepRecord& r : read_metrics(file)) steps.push_back(r.step);
  return steps;
}

TEST(MetricsLog, ALineHoldsEveryNumber) {
  StepRecord r;
  r.step = 7;
  r.loss = 8.049097061157227;
  r.grad_norm = 1;
  r.lr = 8e-5;
  r.tokens = 16384;
  r.seconds = 0.25;
  r.data_seconds = 0.0625;
  r.tokens_per_second = 65536;
  r.tflops = 4.5;
  r.memory.active_bytes = 1024;
  r.memory.active_percent = 12.5;
  r.tokens_seen = 114688;
  r.extra["z_loss"] = 0.5;
  r.extra["quote\""] = 2;
  EXPECT_EQ(
      to_json(r),
      R"({"step": 7, "loss": 8.049097061157227, "grad_norm": 1.0, "lr": 8e-05, "tokens": 16384, )"
      R"("seconds": 0.25, "data_seconds": 0.0625, "tokens_per_second": 65536.0, "tflops": 4.5, )"
      R"("mfu": null, "memory": {"active_bytes": 1024, "active_percent": 12.5, )"
      R"("reserved_bytes": null, "reserved_percent": null}, "tokens_seen": 114688, )"
      R"("extra": {"quote\"": 2.0, "z_loss": 0.5}})");
}

TEST(MetricsLog, NumbersThatAreNotFiniteAreNullWithAText) {
  StepRecord r = at(1, std::nan(""));
  r.grad_norm = -std::numeric_limits<double>::infinity();
  const std::string line = to_json(r);
  EXPECT_THAT(
      line,
      HasSubstr(
          R"("loss": null, "loss_text": "nan", "grad_norm": null, "grad_norm_text": "-inf")"));
  EXPECT_THAT(line, HasSubstr(R"("mfu": null, "memory")"));
}

TEST(MetricsLog, ReadsBackTheSameBits) {
  Folder folder;
  std::mt19937_64 random(3);
  std::vector<StepRecord> written;
  {
    MetricsLog log(folder.path, 0);
    for (int i = 1; i <= 500; ++i) {
      StepRecord r = at(i, std::bit_cast<double>(random()));
      if (i % 3 != 0) r.grad_norm = std::bit_cast<double>(random());
      r.lr = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(random())));
      r.memory.reserved_bytes = random();
      r.extra["x"] = std::bit_cast<double>(random());
      written.push_back(r);
      log.write(r);
    }
    log.sync();
  }
  const auto read = read_metrics(folder.path / "metrics.jsonl");
  ASSERT_EQ(read.size(), written.size());
  const auto bits = [](double value) {
    return std::isnan(value) ? 1u : std::bit_cast<uint64_t>(value);
  };
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(bits(read[i].loss), bits(written[i].loss));
    EXPECT_EQ(bits(read[i].lr), bits(written[i].lr));
    EXPECT_EQ(read[i].grad_norm.has_value(), written[i].grad_norm.has_value());
    EXPECT_EQ(bits(read[i].grad_norm.value_or(0)), bits(written[i].grad_norm.value_or(0)));
    EXPECT_EQ(read[i].memory.reserved_bytes, written[i].memory.reserved_bytes);
    EXPECT_FALSE(read[i].memory.active_bytes);
    EXPECT_EQ(bits(read[i].extra.at("x")), bits(written[i].extra.at("x")));
  }
}

TEST(MetricsLog, AResumedRunHasEachStepOnce) {
  Folder folder;
  {
    MetricsLog log(folder.path, 0);
    for (int i = 1; i <= 9; ++i) log.write(at(i));
    ValidationRecord v;
    for (int i : {3, 6, 9}) v.step = i, log.write(v);
  }
  const std::string before = slurp(folder.path / "metrics.jsonl");
  {
    MetricsLog log(folder.path, 6);
    EXPECT_TRUE(before.starts_with(slurp(folder.path / "metrics.jsonl")));
    log.write(at(7, 99));
  }
  EXPECT_THAT(steps_of(folder.path / "metrics.jsonl"), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(steps_of(folder.path / "validation.jsonl"), ElementsAre(3, 6));
  MetricsLog anew(folder.path, 0);
  EXPECT_EQ(slurp(folder.path / "metrics.jsonl"), "");
}

TEST(MetricsLog, ATornEndIsDroppedWhereverItTears) {
  Folder folder;
  const std::filesystem::path file = folder.path / "metrics.jsonl";
  const std::string good = to_json(at(1)) + "\n" + to_json(at(2)) + "\n",
                    last = to_json(at(3)) + "\n";
  for (std::size_t cut = 0; cut < last.size(); ++cut) {
    spill(file, good + last.substr(0, cut));
    EXPECT_THAT(steps_of(file), ElementsAre(1, 2));
    MetricsLog(folder.path, 3).write(at(3));
    ASSERT_EQ(slurp(file), good + last);
  }
  // A crash of the machine may leave zeros, with a line break by chance.
  spill(file, good + std::string(100, '\0') + "\n" + std::string(100, '\0'));
  MetricsLog(folder.path, 2).write(at(3));
  EXPECT_EQ(slurp(file), good + last);
}

TEST(MetricsLog, DamageInTheMiddleIsNamed) {
  Folder folder;
  const std::filesystem::path file = folder.path / "metrics.jsonl";
  for (const std::string& bad :
       {std::string("{"), std::string("[1]"), std::string("{\"loss\": 1}"),
        std::string("{\"step\": \"1\"}"), std::string(100000, '['), std::string("\xff")}) {
    spill(file, to_json(at(1)) + "\n" + bad + "\n" + to_json(at(3)) + "\n");
    try {
      read_metrics(file);
      FAIL() << bad.substr(0, 20);
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::EndsWith("metrics.jsonl:2: not a record of a step"));
    }
    EXPECT_THROW(MetricsLog(folder.path, 3), Error);
  }
}

TEST(MetricsLog, AMissingFileOrFolderIsNamed) {
  Folder folder;
  EXPECT_THROW(read_metrics(folder.path / "metrics.jsonl"), Error);
  EXPECT_THROW(MetricsLog(folder.path / "absent", 0), Error);
  EXPECT_THROW(MetricsLog(folder.path / "absent", 5), Error);
  MetricsLog(folder.path, 5).write(at(6));  // resumed elsewhere, without the old curve
  EXPECT_THAT(steps_of(folder.path / "metrics.jsonl"), ElementsAre(6));
}

/// Makes writes past `bytes` fail, as on a full disk.
struct SizeLimit {
  explicit SizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  rlimit before{};
  void (*handler)(int) = nullptr;
};

TEST(MetricsLog, ValidationsReadBack) {
  Folder folder;
  const auto file = folder.path / "validation.jsonl";
  ValidationRecord r;
  r.step = 4;
  r.loss = 2.25;
  r.tokens = 128;
  r.seconds = 0.5;
  r.tokens_per_second = 256;
  r.memory.active_bytes = 77;
  {
    MetricsLog log(folder.path, 0);
    log.write(r);
    r.step = 8;
    r.loss = std::nan("");
    log.write(r);
  }
  const std::vector<ValidationRecord> read = read_validations(file);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_json(read[0]), slurp(file).substr(0, slurp(file).find('\n')));
  EXPECT_EQ(read[1].step, 8);
  EXPECT_TRUE(std::isnan(read[1].loss));
}

TEST(MetricsLog, TheWholeSizeEndsWithTheLastWholeRecord) {
  Folder folder;
  const auto file = folder.path / "metrics.jsonl";
  const std::string whole = to_json(at(1)) + "\n" + to_json(at(2)) + "\n";
  for (const std::string end : {"", "{\"step\": 3", "{\"step\": 3}", "x\n"}) {
    spill(file, whole + end);
    EXPECT_EQ(whole_size(file), whole.size()) << end;
  }
  spill(file, "");
  EXPECT_EQ(whole_size(file), 0u);
  spill(file, "x\n" + whole);
  EXPECT_THROW(whole_size(file), Error);
}

TEST(MetricsLog, AWriteThatFailsLeavesWholeRecords) {
  Folder folder;
  MetricsLog log(folder.path, 0);
  log.write(at(1));
  const std::string before = slurp(folder.path / "metrics.jsonl");
  {
    const SizeLimit full(before.size() + 10);
    EXPECT_THROW(log.write(at(2)), Error);
    EXPECT_EQ(slurp(folder.path / "metrics.jsonl"), before);
  }
  log.write(at(3));
  EXPECT_THAT(steps_of(folder.path / "metrics.jsonl"), ElementsAre(1, 3));
}

}  // namespace
}  // namespace plimsoll::report
