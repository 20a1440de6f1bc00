#include "plimsoll/checkpoint/checkpoint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/tensor/storage.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

Snapshot sample(float value = 1) {
  Snapshot s;
  s.step = 10;
  s.groups["model"] = {{"w", at::full({3, 4}, value)},
                       {"b", at::full({4}, value).to(at::kBFloat16)},
                       {"scalar", at::full({}, value)}};
  s.groups["optimizer"] = {{"w.m", at::full({3, 4}, value)}, {"t", at::full({}, 7, at::kLong)}};
  s.state = {{"tokens", 12345}, {"rng", "state"}};
  return s;
}

void expect_equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].tensor.scalar_type(), b[i].tensor.scalar_type());
    EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

TEST(Checkpoint, WhatIsSavedIsLoaded) {
  const TemporaryFolder root;
  const Snapshot s = sample();
  EXPECT_EQ(save(root.path(), s), root / "step-10");
  const Loaded loaded = open_checkpoint(root / "step-10");
  EXPECT_EQ(loaded.step(), 10);
  EXPECT_EQ(loaded.state(), s.state);
  EXPECT_TRUE(loaded.has("model"));
  EXPECT_FALSE(loaded.has("ema"));
  for (const auto& [name, tensors] : s.groups) {
    std::vector<NamedTensor> destination;
    for (const NamedTensor& t : tensors) destination.push_back({t.name, at::zeros_like(t.tensor)});
    loaded.load_into(name, destination);
    expect_equal(destination, tensors);
  }
  EXPECT_EQ(loaded.load("model").size(), 3u);
  EXPECT_THAT(error_of([&] { loaded.load("ema"); }), HasSubstr("no ema.safetensors"));
}

TEST(Checkpoint, EveryElementTypeComesBackBitForBit) {
  const TemporaryFolder root;
  Snapshot s;
  const at::Tensor bytes = at::arange(0, 240, at::kByte);
  for (const at::ScalarType type :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
        at::kChar, at::kByte, at::kUInt16, at::kUInt32, at::kUInt64, at::ScalarType::Float8_e4m3fn,
        at::ScalarType::Float8_e5m2, at::kComplexFloat}) {
    s.groups["model"].push_back({c10::toString(type), bytes.view(type).view({5, -1})});
  }
  save(root.path(), s);
  for (const NamedTensor& t : open_checkpoint(root / "step-0").load("model")) {
    EXPECT_TRUE(at::equal(t.tensor.view({-1}).view(at::kByte), bytes)) << t.name;
  }
}

TEST(Checkpoint, StridedTensorsAreStoredInLogicalOrder) {
  const TemporaryFolder root;
  const at::Tensor base = at::arange(0, 24, at::kFloat).view({4, 6});
  const at::Tensor complex = at::view_as_complex(base.view({4, 3, 2}));
  Snapshot s;
  s.groups["model"] = {{"t", base.t()},
                       {"slice", base.slice(1, 1, 5, 2)},
                       {"row", base.select(0, 2)},
                       {"expanded", base.select(0, 1).expand({3, 6})},
                       {"conj", complex.conj()}};
  save(root.path(), s);
  const Loaded loaded = open_checkpoint(root / "step-0");
  std::vector<NamedTensor> destination;
  for (const NamedTensor& t : s.groups["model"]) {
    // Into a strided place, too.
    at::Tensor place = at::zeros(t.tensor.sizes(), t.tensor.options());
    if (place.dim() == 2) place = at::zeros({place.size(1), place.size(0)}, place.options()).t();
    destination.push_back({t.name, place});
  }
  loaded.load_into("model", destination);
  expect_equal(destination, s.groups["model"]);
}

TEST(Checkpoint, LoadsIntoParametersInPlace) {
  const TemporaryFolder root;
  save(root.path(), sample(3));
  std::vector<NamedTensor> parameters = sample(0).groups["model"];
  for (NamedTensor& p : parameters) p.tensor.set_requires_grad(true);
  const void* memory = parameters[0].tensor.const_data_ptr();
  const auto version = parameters[0].tensor._version();
  open_checkpoint(root / "step-10").load_into("model", parameters);
  expect_equal(parameters, sample(3).groups["model"]);
  EXPECT_EQ(parameters[0].tensor.const_data_ptr(), memory);
  EXPECT_TRUE(parameters[0].tensor.is_leaf());
  EXPECT_GT(parameters[0].tensor._version(), version);
}

class Mismatch : public testing::Test {
 protected:
  void SetUp() override { save(root_.path(), sample(2)); }
  std::string refused(const std::vector<NamedTensor>& destination) {
    const std::string message =
        error_of([&] { open_checkpoint(root_ / "step-10").load_into("model", destination); });
    for (const NamedTensor& t : destination) {
      if (t.tensor.defined() && !t.tensor.is_meta()) {
        EXPECT_TRUE(at::equal(t.tensor, at::zeros_like(t.tensor))) << "was written";
      }
    }
    EXPECT_THAT(message, HasSubstr("step-10/model.safetensors"));
    return message;
  }
  std::vector<NamedTensor> places_ = sample(0).groups["model"];
  TemporaryFolder root_;
};

TEST_F(Mismatch, NamesTheFirstTensorAndBothShapes) {
  places_[0].tensor = at::zeros({3, 5});
  places_[1].tensor = at::zeros({9});
  EXPECT_THAT(refused(places_),
              HasSubstr("tensor \"w\": the model has F32 [3, 5], the file F32 [3, 4]"));
}

TEST_F(Mismatch, NamesBothTypes) {
  places_[1].tensor = at::zeros({4});
  EXPECT_THAT(refused(places_),
              HasSubstr("tensor \"b\": the model has F32 [4], the file BF16 [4]"));
}

TEST_F(Mismatch, MissingName) {
  places_.push_back({"extra", at::zeros({2})});
  EXPECT_THAT(refused(places_), HasSubstr("tensor \"extra\" is missing"));
}

TEST_F(Mismatch, UnexpectedName) {
  places_.erase(places_.begin());
  EXPECT_THAT(refused(places_), HasSubstr("tensor \"w\" is unexpected"));
}

TEST_F(Mismatch, NameAskedForTwice) {
  places_.push_back(places_[0]);
  EXPECT_THAT(refused(places_), HasSubstr("\"w\" is asked for twice"));
}

TEST_F(Mismatch, NoMemory) {
  places_[0].tensor = at::empty({3, 4}, at::TensorOptions(at::kMeta));
  EXPECT_THAT(error_of([&] { open_checkpoint(root_ / "step-10").load_into("model", places_); }),
              HasSubstr("\"w\" has no memory (meta device)"));
  places_[0].tensor = at::Tensor();
  EXPECT_THAT(error_of([&] { open_checkpoint(root_ / "step-10").load_into("model", places_); }),
              HasSubstr("\"w\" is undefined"));
}

TEST(Checkpoint, DamagedDataIsRefusedOnLoad) {
  const TemporaryFolder root;
  save(root.path(), sample());
  const fs::path file = root / "step-10" / "model.safetensors";
  std::string bytes = slurp(file);
  bytes[bytes.size() - 1] ^= 4;
  spill(file, bytes);
  EXPECT_THAT(error_of([&] { open_checkpoint(root / "step-10").load("model"); }),
              AllOf(HasSubstr(file.string()), HasSubstr("tensor \"b\" is damaged: expected xxh3")));
}

TEST(Checkpoint, TiedTensorsMustHoldOneValue) {
  const TemporaryFolder root;
  const auto tied = [](float a, float b) {
    Snapshot s;
    s.groups["model"] = {{"embedding", at::full({5}, a)}, {"head", at::full({5}, b)}};
    return s;
  };
  save(root / "same", tied(1, 1));
  save(root / "differ", tied(1, 2));
  const at::Tensor one = at::zeros({5});
  const std::vector<NamedTensor> places{{"embedding", one}, {"head", one}};
  open_checkpoint(root / "same" / "step-0").load_into("model", places);
  EXPECT_TRUE(at::equal(one, at::full({5}, 1.0f)));
  EXPECT_THAT(
      error_of([&] { open_checkpoint(root / "differ" / "step-0").load_into("model", places); }),
      HasSubstr("\"embedding\" and \"head\" are one in the model but differ in the file"));
}

TEST(Checkpoint, OtherFilesLoadByTheSameRules) {
  const TemporaryFolder folder;
  const auto tensors = sample(4).groups["model"];
  save_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}});
  const SafetensorsFile file(folder / "a.safetensors");
  auto places = sample(0).groups["model"];
  places.erase(places.begin());
  EXPECT_THAT(error_of([&] { load_safetensors(file, places); }), HasSubstr("\"w\" is unexpected"));
  load_safetensors(file, places, true);
  EXPECT_TRUE(at::equal(places[0].tensor, tensors[1].tensor));
}

TEST(Checkpoint, SaveRefusesWhatAFileCannotHold) {
  const TemporaryFolder root;
  Snapshot s;
  s.groups["model"] = {{"s", at::zeros({2, 2}).to_sparse()}};
  EXPECT_THAT(error_of([&] { save(root.path(), s); }),
              HasSubstr("\"s\" is not a plain dense tensor"));
  s.groups["model"] = {{"d", at::zeros({2}, at::kComplexDouble)}};
  EXPECT_THAT(error_of([&] { save(root.path(), s); }),
              HasSubstr("no element type for ComplexDouble"));
  EXPECT_TRUE(fs::is_empty(root.path()));
}

// B42, B75: the copy is a copy also when everything is on the host already.
TEST(Stage, SharesNoStorageWithTheLiveTensors) {
  Snapshot live = sample(1);
  const Snapshot staged = stage(live);
  for (auto& [name, tensors] : live.groups) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_FALSE(tensor::same_storage(tensors[i].tensor, staged.groups.at(name)[i].tensor));
      tensors[i].tensor.fill_(2);
    }
  }
  expect_equal(staged.groups.at("model"), sample(1).groups["model"]);
  EXPECT_EQ(staged.step, 10);
  EXPECT_EQ(staged.state, live.state);
}

TEST(Stage, ReusesItsMemoryWhereItFits) {
  Snapshot staged = stage(sample(1));
  const void* w = staged.groups["model"][0].tensor.const_data_ptr();
  Snapshot live = sample(2);
  std::swap(live.groups["model"][0], live.groups["model"][2]);
  live.groups["model"].push_back({"w", at::full({3, 4}, 9)});  // a name given twice
  stage_into(live, staged);
  EXPECT_EQ(staged.groups["model"][2].tensor.const_data_ptr(), w);
  EXPECT_NE(staged.groups["model"][3].tensor.const_data_ptr(), w);
  expect_equal(staged.groups["model"], live.groups["model"]);
  live.groups["model"] = {{"w", at::full({5}, 3)}};
  stage_into(live, staged);
  expect_equal(staged.groups["model"], live.groups["model"]);
}

TEST(Stage, ParametersAreStagedWithoutAGraph) {
  Snapshot live;
  live.groups["model"] = {{"w", at::full({2}, 1.0).set_requires_grad(true)}};
  EXPECT_FALSE(stage(live).groups["model"][0].tensor.requires_grad());
}

}  // namespace
}  // namespace plimsoll::checkpoint
