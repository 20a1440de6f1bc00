#include "plimsoll/tensor/generator.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

namespace plimsoll::tensor {
namespace {

at::Tensor draw(at::Generator generator) {
  return at::rand({16}, generator);
}

TEST(Generator, SamePurposeGivesTheSameNumbers) {
  EXPECT_TRUE(at::equal(draw(make_generator(1, "init")), draw(make_generator(1, "init"))));
}

TEST(Generator, PurposeAndSeedEachChangeThem) {
  const at::Tensor base = draw(make_generator(1, "init"));
  EXPECT_FALSE(at::equal(base, draw(make_generator(1, "sample"))));
  EXPECT_FALSE(at::equal(base, draw(make_generator(2, "init"))));
}

TEST(Generator, DrawingFromOneDoesNotMoveAnother) {
  at::Generator a = make_generator(1, "a");
  at::Generator b = make_generator(1, "b");
  draw(b);
  EXPECT_TRUE(at::equal(draw(a), draw(make_generator(1, "a"))));
}

// The seeds are part of what makes a run reproducible: they must never change.
TEST(Generator, SeedsAreFixedForever) {
  EXPECT_EQ(seed_for(0, ""), 0x2d06800538d394c2u);
  EXPECT_NE(seed_for(42, "init"), seed_for(42, "data"));
}

}  // namespace
}  // namespace plimsoll::tensor
