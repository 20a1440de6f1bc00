#include "plimsoll/checkpoint/folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/steps.h"
#include "tests/checkpoint/sample_folder.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Folder, WhatIsWrittenIsRead) {
  const TemporaryFolder root;
  EXPECT_EQ(write_sample(root / "runs", 12, 1.5f), root.path() / "runs" / "step-12");
  const FolderContents contents = read_folder(root.path() / "runs" / "step-12");
  EXPECT_EQ(contents.step, 12);
  EXPECT_EQ(contents.state["position"], 1200);
  EXPECT_EQ(contents.groups.size(), 2u);
  verify_data(contents, "model");
  verify_data(contents, "optimizer");
  expect_whole(root / "runs", 12, 1.5f);
  EXPECT_TRUE(fs::exists(root.path() / "runs" / "step-12" / "DONE"));
  EXPECT_EQ(fs::file_size(root.path() / "runs" / "step-12" / "DONE"), 0u);
  EXPECT_EQ(names_in(root / "runs"), (std::vector<std::string>{"step-12"}));
}

TEST(Folder, GatesComeInOrder) {
  const TemporaryFolder root;
  std::vector<std::string> points;
  write_sample(root.path(), 1, 1, [&](std::string_view point) { points.emplace_back(point); });
  EXPECT_THAT(points, ElementsAre("created", "wrote model", "wrote optimizer", "before done",
                                  "before rename", "renamed"));
}

TEST(Folder, SameStepAgainReplacesIt) {
  const TemporaryFolder root;
  write_sample(root.path(), 3, 1);
  write_sample(root.path(), 3, 2);
  expect_whole(root.path(), 3, 2);
  EXPECT_EQ(names_in(root.path()), (std::vector<std::string>{"step-3"}));
}

TEST(Folder, RefusesWhatItCannotKeep) {
  const TemporaryFolder root;
  const auto error = [&](const std::string& group, const nlohmann::json& state, std::int64_t step) {
    return error_of([&] { write_folder(root.path(), step, {{group, {}}}, state); });
  };
  EXPECT_THAT(error("../x", {}, 1), HasSubstr("cannot be a file name"));
  EXPECT_THAT(error("", {}, 1), HasSubstr("cannot be a file name"));
  EXPECT_THAT(error("model", {}, -1), HasSubstr("step -1"));
  EXPECT_THAT(error("model", {{"a", {{"loss", std::nan("")}}}}, 1),
              HasSubstr("/a/loss is nan: JSON cannot hold it"));
  EXPECT_THAT(error("model", {{"x", {1.0, std::numeric_limits<double>::infinity()}}}, 1),
              HasSubstr("/x/1 is inf"));
  EXPECT_THAT(error("model", {{"x", "\xff"}}, 1), HasSubstr("not valid UTF-8"));
  EXPECT_TRUE(fs::is_empty(root.path()));
}

TEST(Folder, StateComesBackBitForBit) {
  const TemporaryFolder root;
  nlohmann::json state = {{"lr", 0.1 + 0.2},
                          {"tiny", 5e-324},
                          {"seed", 18446744073709551615ull},
                          {"neg", -9223372036854775807 - 1},
                          {"text", "zeile\n\u00e9"},
                          {"none", nullptr}};
  write_folder(root.path(), 0, {}, state);
  EXPECT_EQ(read_folder(root / "step-0").state, state);
}

// B72: truncated or incomplete files.
class Damaged : public testing::Test {
 protected:
  void SetUp() override {
    write_sample(root_.path(), 1, 1);
    write_sample(root_.path(), 2, 2);
  }
  fs::path at(const std::string& name) { return root_ / "step-2" / name; }
  std::string refused() {
    EXPECT_THAT(list_steps(root_.path()), ElementsAre(1));
    return error_of([&] { read_folder(root_ / "step-2"); });
  }
  TemporaryFolder root_;
};

TEST_F(Damaged, OneByteCut) {
  const auto size = fs::file_size(at("model.safetensors"));
  fs::resize_file(at("model.safetensors"), size - 1);
  EXPECT_THAT(refused(),
              AllOf(HasSubstr("model.safetensors"),
                    HasSubstr(fmt::format("expected {} bytes, found {}", size, size - 1))));
}

TEST_F(Damaged, HalfCut) {
  const auto size = fs::file_size(at("optimizer.safetensors"));
  fs::resize_file(at("optimizer.safetensors"), size / 2);
  EXPECT_THAT(refused(), AllOf(HasSubstr("optimizer.safetensors"), HasSubstr("expected"),
                               HasSubstr(fmt::format("found {}", size / 2))));
}

TEST_F(Damaged, ShardDropped) {
  fs::remove(at("optimizer.safetensors"));
  EXPECT_THAT(refused(), AllOf(HasSubstr("optimizer.safetensors"), HasSubstr("found none")));
}

TEST_F(Damaged, ShardsSwapped) {
  // Of equal size, so only what they say about themselves tells them apart.
  ASSERT_EQ(fs::file_size(at("model.safetensors")),
            fs::file_size(root_ / "step-1" / "model.safetensors"));
  fs::copy_file(root_ / "step-1" / "model.safetensors", at("model.safetensors"),
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(refused(),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("expected step 2, found 1")));
}

TEST_F(Damaged, ShardsSwappedWithinACheckpoint) {
  fs::rename(at("model.safetensors"), at("x"));
  fs::rename(at("optimizer.safetensors"), at("model.safetensors"));
  fs::rename(at("x"), at("optimizer.safetensors"));
  EXPECT_THAT(refused(), HasSubstr("model.safetensors"));
}

TEST_F(Damaged, BitFlippedInTheData) {
  std::string bytes = slurp(at("model.safetensors"));
  bytes.back() ^= 1;
  spill(at("model.safetensors"), bytes);
  const FolderContents contents = read_folder(root_ / "step-2");
  EXPECT_NO_THROW(verify_data(contents, "optimizer"));
  EXPECT_THAT(error_of([&] { verify_data(contents, "model"); }),
              AllOf(HasSubstr("step-2/model.safetensors"), HasSubstr("is damaged: expected xxh3")));
}

TEST_F(Damaged, DoneMissing) {
  fs::remove(at("DONE"));
  EXPECT_THAT(refused(), HasSubstr("DONE is missing"));
}

TEST_F(Damaged, StateMissing) {
  fs::remove(at("state.json"));
  EXPECT_THAT(refused(), HasSubstr("state.json"));
}

TEST_F(Damaged, StateTampered) {
  std::string text = slurp(at("state.json"));
  const auto where = text.find("\"position\": 200");
  ASSERT_NE(where, text.npos);
  text.replace(where, 15, "\"position\": 300");
  spill(at("state.json"), text);
  EXPECT_THAT(refused(), HasSubstr("the state is damaged: expected xxh3"));
}

TEST_F(Damaged, HostileStates) {
  const std::string good = slurp(at("state.json"));
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    auto document = nlohmann::json::parse(good);
    document[nlohmann::json::json_pointer(pointer)] = value;
    spill(at("state.json"), document.dump());
    return refused();
  };
  EXPECT_THAT(with("/format", "other"), HasSubstr("not the state of a checkpoint"));
  EXPECT_THAT(with("/format", 3), HasSubstr("not the state of a checkpoint"));
  EXPECT_THAT(with("/version", 2), HasSubstr("format version 2"));
  EXPECT_THAT(with("/version", -1), HasSubstr("\"version\" must be a whole number"));
  EXPECT_THAT(with("/step", "2"), HasSubstr("\"step\" must be"));
  EXPECT_THAT(with("/step", 18446744073709551615ull), HasSubstr("out of range"));
  EXPECT_THAT(with("/files", nullptr), HasSubstr("\"files\" must be an object, found null"));
  EXPECT_THAT(with("/files/..~1x.safetensors", nlohmann::json::object()),
              HasSubstr("cannot be a file name"));
  EXPECT_THAT(with("/files/x.bin", nlohmann::json::object()), HasSubstr("not a safetensors file"));
  EXPECT_THAT(with("/files/model.safetensors", 3), HasSubstr("must be an object"));
  EXPECT_THAT(with("/files/model.safetensors/bytes", 1.5), HasSubstr("\"bytes\" must be"));
  EXPECT_THAT(with("/files/model.safetensors/xxh3", 1), HasSubstr("\"xxh3\" must be"));
  EXPECT_THAT(with("/files/model.safetensors/xxh3/more", "00"), HasSubstr("\"more\" is missing"));
  EXPECT_THAT(with("/files/model.safetensors/xxh3/weight", 7), HasSubstr("must be a string"));
  EXPECT_THAT(with("/files/model.safetensors/xxh3", nlohmann::json::object()),
              HasSubstr("is not listed in state.json"));
  EXPECT_THAT(with("/state_xxh3", 1), HasSubstr("\"state_xxh3\" must be"));
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{"),
                                  std::string("null"), "{\"format\":" + std::string(1'000'000, '['),
                                  good.substr(0, good.size() / 2), good + std::string("\0{", 2)}) {
    spill(at("state.json"), text);
    EXPECT_THAT(refused(), HasSubstr("state.json"));
  }
}

}  // namespace
}  // namespace plimsoll::checkpoint
