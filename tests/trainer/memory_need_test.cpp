#include "plimsoll/trainer/memory_need.h"

#include <gtest/gtest.h>

#include "plimsoll/trainer/trainer.h"
#include "tests/expect_error.h"
#include "tests/trainer/tiny_run.h"

namespace plimsoll::trainer {
namespace {

using plimsoll::testing::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TinyRun;
namespace fs = std::filesystem;

const c10::Device kCpu(c10::DeviceType::CPU);

RunConfig shape(const char* flavor, const char* dtype) {
  RunConfig c;
  c.model.flavor = flavor;
  c.train.gradients = dtype;
  c.optim.moments = dtype;
  return c;
}

TEST(MemoryNeed, IsWhatEachPartTakes) {
  const MemoryNeed debug = memory_need(shape("debugmodel", "fp32"), c10::kFloat);
  EXPECT_EQ(debug.masters, 6163712 * 4);
  EXPECT_EQ(debug.copies, 0);
  EXPECT_EQ(debug.gradients, 6163712 * 4);
  EXPECT_EQ(debug.moments, 6163712 * 8);
  const MemoryNeed mixed = memory_need(shape("debugmodel", "bf16"), c10::kBFloat16);
  EXPECT_EQ(mixed.total(), 6163712 * (4 + 2 + 2 + 4));
  // 8,030,261,248 parameters, 12 bytes each.
  EXPECT_THAT(memory_need(shape("8B", "bf16"), c10::kBFloat16).text(),
              AllOf(HasSubstr("89.7 GiB"), HasSubstr("weights 29.9 GiB"),
                    HasSubstr("bf16 copies 15.0 GiB"), HasSubstr("moments 29.9 GiB")));
}

TEST(MemoryNeed, WhatDoesNotFitIsRefusedBeforeAnythingIsMade) {
  RunConfig c = shape("debugmodel", "fp32");
  EXPECT_NO_THROW(require_room(memory_need(c, c10::kFloat), kCpu, c));
  c.memory.host_limit = 10 << 20;
  EXPECT_THAT(error_of([&] { require_room(memory_need(c, c10::kFloat), kCpu, c); }),
              AllOf(HasSubstr("94.1 MiB"), HasSubstr("memory.host_limit is 10.0 MiB")));
  TinyRun run;
  run.config.model.flavor = "405B";
  run.config.model.layers.reset();
  run.config.model.dim.reset();
  run.config.model.ffn.reset();
  run.config.model.heads.reset();
  run.config.model.kv_heads.reset();
  run.config.model.head_dim.reset();
  EXPECT_THAT(error_of([&] { run.train(); }), HasSubstr("the model does not fit"));
  EXPECT_FALSE(fs::exists(run.config.run.dir));
}

}  // namespace
}  // namespace plimsoll::trainer
