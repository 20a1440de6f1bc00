#include "plimsoll/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "plimsoll/base/error.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Sample {
  std::vector<float> weights = std::vector<float>(6);
  std::vector<std::uint16_t> halves{0x3f80, 0x4000, 0x4040};
  std::int64_t count = -5;
  std::uint8_t flags[3] = {1, 0, 1};
  Sample() { std::iota(weights.begin(), weights.end(), 0.5f); }
  std::vector<TensorView> views() const {
    return {{"flags", DType::BOOL, {3}, flags, 3},
            {"weights", DType::F32, {2, 3}, weights.data(), 24},
            {"h\"alves\u00e9", DType::BF16, {3, 1}, halves.data(), 6},
            {"empty", DType::F16, {0, 4}, nullptr, 0},
            {"count", DType::I64, {}, &count, 8}};
  }
};

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const Sample sample;
  write_safetensors(folder / "a.safetensors", sample.views(), {{"key", "värde"}});
  const SafetensorsFile file(folder / "a.safetensors");
  ASSERT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.metadata().at("key"), "värde");
  for (const TensorView& view : sample.views()) {
    const TensorInfo& info = file.at(view.name);
    EXPECT_EQ(info.dtype, view.dtype);
    EXPECT_EQ(info.shape, view.shape);
    ASSERT_EQ(file.bytes(info).size(), view.bytes);
    if (view.bytes > 0) {
      EXPECT_EQ(std::memcmp(file.bytes(info).data(), view.data, view.bytes), 0) << view.name;
    }
    // Aligned to its element in the file, so also in the map.
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.bytes(info).data()) %
                  static_cast<std::uintptr_t>(dtype_bits(info.dtype) / 8),
              0u);
  }
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_THAT(error_of([&] { file.at("nothing"); }), HasSubstr("no tensor \"nothing\""));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Safetensors, BytesDoNotDependOnTheOrderGiven) {
  const TemporaryFolder folder;
  const Sample sample;
  auto views = sample.views();
  write_safetensors(folder / "a", views);
  std::reverse(views.begin(), views.end());
  write_safetensors(folder / "b", views);
  EXPECT_EQ(slurp(folder / "a"), slurp(folder / "b"));
  std::uint64_t header = 0;
  std::memcpy(&header, slurp(folder / "a").data(), 8);
  EXPECT_EQ(header % 8, 0u);
}

TEST(Safetensors, ReadsIntoMemoryOfTheCaller) {
  const TemporaryFolder folder;
  // Several pieces and a remainder, on more threads than pieces of the small one.
  std::vector<std::uint32_t> big(5'000'001);
  std::iota(big.begin(), big.end(), 7u);
  const Sample sample;
  auto views = sample.views();
  views.push_back({"big", DType::U32, {5'000'001}, big.data(), big.size() * 4});
  write_safetensors(folder / "a", views);
  const SafetensorsFile file(folder / "a");
  for (const int count : {0, 1, 2, 5}) {
    std::vector<std::vector<char>> out;
    std::vector<ReadRequest> requests;
    for (const TensorView& view : views) {
      requests.push_back({&file.at(view.name), out.emplace_back(view.bytes).data()});
    }
    read_tensors(file, requests, threads(count));
    for (std::size_t i = 0; i < views.size(); ++i) {
      EXPECT_TRUE(views[i].bytes == 0 ||
                  std::memcmp(out[i].data(), views[i].data, views[i].bytes) == 0);
      std::fill(out[i].begin(), out[i].end(), 0);
    }
    const auto hashes = read_tensors_hashed(file, requests, threads(count));
    for (std::size_t i = 0; i < views.size(); ++i) {
      EXPECT_EQ(hashes[i], xxh3_hex({out[i].data(), out[i].size()}));
      EXPECT_TRUE(views[i].bytes == 0 ||
                  std::memcmp(out[i].data(), views[i].data, views[i].bytes) == 0);
    }
  }
}

TEST(Safetensors, AFileThatShrinksWhileReadIsAnError) {
  const TemporaryFolder folder;
  std::vector<char> data(20'000'000, 'x');
  const TensorView view{"a", DType::U8, {20'000'000}, data.data(), data.size()};
  write_safetensors(folder / "a", {&view, 1});
  const SafetensorsFile file(folder / "a");
  ASSERT_EQ(::truncate((folder / "a").c_str(), 10'000'000), 0);
  const ReadRequest request{&file.at("a"), data.data()};
  EXPECT_THAT(error_of([&] {
                read_tensors(file, {&request, 1});
              }),
              HasSubstr("shrank while it was read"));
  EXPECT_THAT(error_of([&] { read_tensors_hashed(file, {&request, 1}); }), HasSubstr("shrank"));
}

TEST(Safetensors, WriterRefusesWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a";
  const float data[2] = {};
  const auto error = [&](std::vector<TensorView> views) {
    return error_of([&] { write_safetensors(path, views); });
  };
  EXPECT_THAT(error({{"a", DType::F32, {2}, data, 4}}),
              HasSubstr("tensor \"a\": F32 [2] takes 8 bytes, 4 were given"));
  EXPECT_THAT(error({{"a", DType::F32, {2}, nullptr, 8}}), HasSubstr("has no memory"));
  EXPECT_THAT(error({{"a", DType::F32, {-2}, data, 8}}), HasSubstr("too many"));
  EXPECT_THAT(error({{"a", DType::F32, {2}, data, 8}, {"a", DType::F32, {2}, data, 8}}),
              HasSubstr("given twice"));
  EXPECT_THAT(error({{"__metadata__", DType::F32, {2}, data, 8}}), HasSubstr("reserves"));
  EXPECT_THAT(error({{"\xff", DType::F32, {2}, data, 8}}), HasSubstr("not valid UTF-8"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Safetensors, WriteErrorsNameStepFileAndReason) {
  const float data = 1;
  const TensorView view{"a", DType::F32, {}, &data, 4};
  const auto error = [&](const fs::path& path) {
    return error_of([&] { write_safetensors(path, {&view, 1}); });
  };
  const TemporaryFolder folder;
  EXPECT_THAT(error(folder / "no" / "such"), HasSubstr("cannot create"));
  EXPECT_THAT(error(folder / "no" / "such"), HasSubstr("No such file"));
  fs::create_directories(folder / "taken" / "by");
  EXPECT_THAT(error(folder / "taken"),
              testing::AllOf(HasSubstr("cannot rename"), HasSubstr("taken")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Safetensors, OpenRefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder / "none"); }), HasSubstr("none"));
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder.path()); }),
              HasSubstr(folder.path().string()));
  spill(folder / "empty", "");
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder / "empty"); }), HasSubstr("found 0"));
}

// The Python library reads ours and we read theirs: runs where the peers' Python is at hand.
class Peer : public testing::Test {
 protected:
  void SetUp() override {
    const char* set = std::getenv("PLIMSOLL_PEERS_PYTHON");
    python_ = set ? set : std::string(PLIMSOLL_SOURCE_DIR) + "/build/venv-peers/bin/python";
    if (!fs::exists(python_) ||
        std::system((python_ + " -c 'import safetensors.numpy' >/dev/null 2>&1").c_str()) != 0) {
      GTEST_SKIP() << "no Python with safetensors (PLIMSOLL_PEERS_PYTHON)";
    }
  }
  int run(const std::string& code, const fs::path& path) {
    spill(folder_ / "code.py", code);
    return std::system(
        fmt::format("{} {} {}", python_, (folder_ / "code.py").string(), path.string()).c_str());
  }
  TemporaryFolder folder_;
  std::string python_;
};

TEST_F(Peer, ReadsOurFile) {
  const Sample sample;
  write_safetensors(folder_ / "a", sample.views(), {{"k", "v"}});
  EXPECT_EQ(run(R"py(
import sys, struct
from safetensors import deserialize, safe_open
data = open(sys.argv[1], "rb").read()
t = {k: (v["dtype"], v["shape"], bytes(v["data"])) for k, v in deserialize(data)}
assert len(t) == 5, t
assert t["weights"] == ("F32", [2, 3], struct.pack("<6f", *[0.5 + i for i in range(6)])), t
assert t["h\"alves\u00e9"] == ("BF16", [3, 1], struct.pack("<3H", 0x3f80, 0x4000, 0x4040)), t
assert t["count"] == ("I64", [], struct.pack("<q", -5)), t
assert t["flags"] == ("BOOL", [3], b"\1\0\1"), t
assert t["empty"] == ("F16", [0, 4], b""), t
with safe_open(sys.argv[1], "np") as f:
    assert f.metadata() == {"k": "v"}, f.metadata()
)py",
                folder_ / "a"),
            0);
}

TEST_F(Peer, WritesAFileThatWeRead) {
  ASSERT_EQ(run(R"py(
import sys
import numpy as np
from safetensors.numpy import save_file
save_file({"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(-5, dtype=np.int64),
           "b": np.array([True, False]), "e": np.zeros((0, 4), dtype=np.float16)},
          sys.argv[1], {"k": "v"})
)py",
                folder_ / "a"),
            0);
  const SafetensorsFile file(folder_ / "a");
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("k"), "v");
  const float expected[6] = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(std::memcmp(file.bytes(file.at("w")).data(), expected, 24), 0);
  EXPECT_EQ(file.at("e").shape, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(file.at("n").dtype, DType::I64);
  EXPECT_EQ(file.at("b").dtype, DType::BOOL);
}

TEST_F(Peer, GivesTheSameBytes) {
  const Sample sample;
  std::vector<TensorView> views{{"w", DType::F32, {2, 3}, sample.weights.data(), 24},
                                {"n", DType::I64, {}, &sample.count, 8},
                                {"b", DType::BOOL, {3}, sample.flags, 3}};
  write_safetensors(folder_ / "ours", views, {{"k", "v"}});
  ASSERT_EQ(run(R"py(
import sys
import numpy as np
from safetensors.numpy import save_file
save_file({"w": np.arange(6, dtype=np.float32).reshape(2, 3) + np.float32(0.5),
           "n": np.array(-5, dtype=np.int64), "b": np.array([True, False, True])},
          sys.argv[1], {"k": "v"})
)py",
                folder_ / "theirs"),
            0);
  EXPECT_EQ(slurp(folder_ / "ours"), slurp(folder_ / "theirs"));
}

}  // namespace
}  // namespace plimsoll::checkpoint
