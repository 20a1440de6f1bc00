#include "plimsoll/checkpoint/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "plimsoll/base/error.h"

namespace plimsoll::checkpoint {
namespace {

TEST(Background, SecondJobWaitsForTheFirst) {
  Background background;
  std::promise<void> gate;
  auto opened = gate.get_future();
  int value = 0;  // not atomic: the hand-over must order it, the thread sanitizer looks
  background.submit([&] {
    opened.wait();
    value = 1;
  });
  EXPECT_TRUE(background.busy());
  gate.set_value();
  background.submit([&] { value = value == 1 ? 2 : -1; });
  background.wait();
  EXPECT_EQ(value, 2);
  EXPECT_FALSE(background.busy());
}

TEST(Background, ErrorIsThrownOnceAtTheNextCall) {
  Background background;
  background.submit([] { throw Error("first"); });
  bool ran = false;
  try {
    background.submit([&] { ran = true; });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "first");
  }
  EXPECT_NO_THROW(background.wait());
  EXPECT_FALSE(ran);
  background.submit([&] { ran = true; });
  background.wait();
  EXPECT_TRUE(ran);
}

TEST(Background, DestructorFinishesTheJob) {
  std::promise<void> gate;
  auto opened = gate.get_future();
  bool ran = false;
  {
    Background background;
    background.submit([&] {
      opened.wait();
      ran = true;
    });
    gate.set_value();
  }
  EXPECT_TRUE(ran);
}

TEST(Background, DestructorSwallowsAnUnseenError) {
  Background background;
  background.submit([] { throw Error("unseen"); });
}

}  // namespace
}  // namespace plimsoll::checkpoint
