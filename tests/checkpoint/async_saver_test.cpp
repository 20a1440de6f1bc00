#include "plimsoll/checkpoint/async_saver.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/steps.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

Snapshot sample(std::int64_t step, float value) {
  Snapshot s;
  s.step = step;
  s.groups["model"] = {{"w", at::full({100, 10}, value)}};
  s.groups["optimizer"] = {{"w.m", at::full({100, 10}, value)}};
  s.state = {{"value", value}};
  return s;
}

void expect_value(const fs::path& root, std::int64_t step, float value) {
  const Loaded loaded = open_checkpoint(step_path(root, step));
  EXPECT_EQ(loaded.state()["value"], value);
  for (const char* group : {"model", "optimizer"}) {
    const at::Tensor tensor = loaded.load(group)[0].tensor;
    EXPECT_TRUE(at::equal(tensor, at::full({100, 10}, value))) << group;
  }
}

// A gate that holds the writer at one point until opened.
class Hold {
 public:
  explicit Hold(std::string point) : point_(std::move(point)) {}
  Gate gate() {
    return [this](std::string_view at) {
      if (at != point_ || reached_once_.exchange(true)) return;
      reached_.set_value();
      opened_.wait();
    };
  }
  void wait_until_reached() { reached_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::string point_;
  std::atomic<bool> reached_once_{false};
  std::promise<void> reached_;
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

// B75: what was submitted is what is in the file, whatever the weights do meanwhile.
TEST(AsyncSaver, WeightsMayChangeAfterSubmit) {
  for (const char* point : {"created", "wrote model", "before done"}) {
    const TemporaryFolder root;
    Hold hold(point);
    AsyncSaver saver(root.path(), 0, hold.gate());
    Snapshot live = sample(1, 1);
    saver.submit(live);
    for (auto& [name, tensors] : live.groups) tensors[0].tensor.fill_(2);
    live.state["value"] = 2;
    hold.wait_until_reached();
    EXPECT_TRUE(saver.busy());
    EXPECT_FALSE(latest(root.path()));  // a step half written is no step
    EXPECT_FALSE(saver.last_saved());
    hold.open();
    saver.wait();
    EXPECT_EQ(saver.last_saved(), 1);
    expect_value(root.path(), 1, 1);
  }
}

TEST(AsyncSaver, SecondSaveWaitsForTheBuffersOfTheFirst) {
  const TemporaryFolder root;
  Hold hold("created");
  std::atomic<bool> second_staged{false};
  std::atomic<int> staged{0};
  AsyncSaver saver(root.path(), 0, [&, inner = hold.gate()](std::string_view at) {
    if (at == "staged" && ++staged == 2) second_staged = true;
    inner(at);
  });
  saver.submit(sample(1, 1));
  hold.wait_until_reached();
  auto second = std::async(std::launch::async, [&] { saver.submit(sample(2, 2)); });
  // It cannot get past the wait while the first is held: nothing but a broken wait could stage now.
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_FALSE(second_staged);
  hold.open();
  second.get();
  saver.wait();
  expect_value(root.path(), 1, 1);
  expect_value(root.path(), 2, 2);
}

TEST(AsyncSaver, ErrorComesAtTheNextCallAndTheNextSaveWorks) {
  const TemporaryFolder root;
  int failures = 1;
  AsyncSaver saver(root.path(), 0, [&](std::string_view at) {
    if (at == "before done" && failures-- > 0) throw Error("the disk is full");
  });
  saver.submit(sample(1, 1));
  EXPECT_EQ(error_of([&] { saver.submit(sample(2, 2)); }), "the disk is full");
  saver.submit(sample(3, 3));
  EXPECT_NO_THROW(saver.wait());
  EXPECT_THAT(list_steps(root.path()), ElementsAre(3));
  expect_value(root.path(), 3, 3);
}

TEST(AsyncSaver, DestructorFinishesTheSave) {
  const TemporaryFolder root;
  {
    AsyncSaver saver(root.path());
    saver.submit(sample(1, 1));
  }
  expect_value(root.path(), 1, 1);
}

TEST(AsyncSaver, Prunes) {
  const TemporaryFolder root;
  AsyncSaver saver(root.path(), 2);
  for (int step = 1; step <= 5; ++step) saver.submit(sample(step, static_cast<float>(step)));
  saver.wait();
  EXPECT_THAT(list_steps(root.path()), ElementsAre(4, 5));
  EXPECT_TRUE(saver.take_warnings().empty());
  EXPECT_THROW(AsyncSaver(root.path(), -1), UsageError);
}

TEST(AsyncSaver, AFailedSaveDoesNotPrune) {
  const TemporaryFolder root;
  AsyncSaver good(root.path(), 1);
  good.submit(sample(1, 1));
  good.wait();
  AsyncSaver bad(root.path(), 1, [](std::string_view at) {
    if (at == "before rename") throw Error("stop");
  });
  bad.submit(sample(2, 2));
  EXPECT_THROW(bad.wait(), Error);
  expect_value(root.path(), 1, 1);
}

TEST(AsyncSaver, BadTensorsAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder root;
  AsyncSaver saver(root.path());
  Snapshot live = sample(1, 1);
  live.groups["model"][0].tensor = at::Tensor();
  EXPECT_THAT(error_of([&] { saver.submit(live); }), HasSubstr("\"w\" is undefined"));
  EXPECT_TRUE(fs::is_empty(root.path()));
}

}  // namespace
}  // namespace plimsoll::checkpoint
