// What a run is after it was saved and restored.
#include "plimsoll/trainer/session.h"

#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>

#include <bit>
#include <future>

#include "plimsoll/base/files.h"
#include "plimsoll/checkpoint/steps.h"
#include "plimsoll/config/config.h"
#include "plimsoll/trainer/saver.h"
#include "tests/expect_error.h"
#include "tests/trainer/tiny_run.h"

namespace plimsoll::trainer {
namespace {

using plimsoll::testing::error_of;
using ::testing::AllOf;
using testing::equal_bits;
using testing::first_difference;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::step;
using testing::TinyRun;
namespace fs = std::filesystem;

void expect_same_curve(const TinyRun& a, const TinyRun& b) {
  const auto left = a.metrics(), right = b.metrics();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].step, right[i].step);
    const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
    EXPECT_EQ(bits(left[i].loss), bits(right[i].loss)) << "step " << left[i].step;
    EXPECT_EQ(bits(*left[i].grad_norm), bits(*right[i].grad_norm)) << "step " << left[i].step;
    EXPECT_EQ(bits(left[i].lr), bits(right[i].lr)) << "step " << left[i].step;
    EXPECT_EQ(left[i].tokens_seen, right[i].tokens_seen) << "step " << left[i].step;
  }
}

void expect_same_checkpoint(const fs::path& a, const fs::path& b) {
  const checkpoint::Loaded left = checkpoint::open_checkpoint(a);
  const checkpoint::Loaded right = checkpoint::open_checkpoint(b);
  EXPECT_EQ(left.step(), right.step());
  for (const char* key : {"tokens_seen", "data"}) {
    EXPECT_EQ(left.state().at(key), right.state().at(key)) << key;
  }
  for (const char* group : {"model", "optimizer"}) {
    EXPECT_EQ(first_difference(left.load(group), right.load(group)), "") << group;
  }
}

struct Variant {
  std::string name, packing = "concat";
  int64_t batches = 1, prefetch = 2;
  std::string architecture = "llama3", precision = "fp32", gradients = "fp32", moments = "fp32";
};

struct ResumedRun : ::testing::TestWithParam<Variant> {
  static void apply(RunConfig& c) {
    const Variant& v = GetParam();
    c.data.packing = v.packing;
    c.data.prefetch = v.prefetch;
    c.model.architecture = v.architecture;
    c.train.tokens_per_step = v.batches * c.train.tokens_per_batch;
    c.train.precision = v.precision;
    c.train.gradients = v.gradients;
    c.optim.moments = v.moments;
    c.checkpoint.keep = 0;
  }
};

TEST_P(ResumedRun, ContinuesWithEqualBits) {
  TinyRun whole, parts;
  apply(whole.config);
  whole.config.checkpoint.interval = 3;
  const TrainResult once = whole.train();
  EXPECT_EQ(once.step, 6);

  apply(parts.config);
  parts.config.train.stop_after = 3;
  EXPECT_EQ(parts.train().step, 3);
  parts.config.train.stop_after.reset();
  const TrainResult twice = parts.train("auto");
  EXPECT_EQ(twice.step, 6);
  EXPECT_EQ(std::bit_cast<uint64_t>(once.loss), std::bit_cast<uint64_t>(twice.loss));
  EXPECT_THAT(parts.said, HasSubstr("continued after step 3"));

  // Steps are those of the optimizer, whatever the batches of one.
  const std::vector<int64_t> steps = {3, 6};
  EXPECT_EQ(checkpoint::list_steps(whole.checkpoints()), steps);
  EXPECT_EQ(checkpoint::list_steps(parts.checkpoints()), steps);
  const auto last = checkpoint::open_checkpoint(whole.checkpoints() / "step-6");
  EXPECT_EQ(last.step(), 6);
  EXPECT_EQ(last.state().at("tokens_seen"), 6 * 64 * GetParam().batches);
  EXPECT_EQ(last.state().at("data").at("rows"), 6 * GetParam().batches);
  for (const auto& [name, tensor] : last.load("optimizer")) {
    if (name == "step") {
      EXPECT_EQ(tensor.item<double>(), 6);
    }
  }

  expect_same_curve(whole, parts);
  for (const char* name : {"step-3", "step-6"}) {
    expect_same_checkpoint(whole.checkpoints() / name, parts.checkpoints() / name);
  }
  // And the six steps did something.
  EXPECT_NE(
      first_difference(last.load("model"),
                       checkpoint::open_checkpoint(whole.checkpoints() / "step-3").load("model")),
      "");
}

INSTANTIATE_TEST_SUITE_P(
    Variants, ResumedRun,
    ::testing::Values(Variant{.name = "concat"},
                      Variant{.name = "first_fit", .packing = "first_fit"},
                      Variant{.name = "accumulated", .batches = 4},
                      Variant{
                          .name = "accumulated_first_fit", .packing = "first_fit", .batches = 4},
                      Variant{.name = "no_prefetch", .batches = 2, .prefetch = 0},
                      Variant{.name = "far_prefetch", .prefetch = 16},
                      Variant{.name = "qwen3", .architecture = "qwen3"},
                      Variant{.name = "bf16", .batches = 2, .precision = "bf16"},
                      Variant{.name = "bf16_all",
                              .batches = 2,
                              .precision = "bf16",
                              .gradients = "bf16",
                              .moments = "bf16"}),
    [](const auto& info) { return info.param.name; });

TEST(ResumeFrom, AnEarlierStepSetsTheLaterOnesAside) {
  TinyRun run, again;
  for (TinyRun* r : {&run, &again}) {
    r->config.checkpoint.interval = 2;
    r->config.checkpoint.keep = 0;
    r->train();
  }
  run.config.train.stop_after = 3;
  run.train("2");
  // Neither step 4 nor 6 of the run that was left may be what auto goes on from.
  EXPECT_EQ(checkpoint::list_steps(run.checkpoints()), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(fs::exists(run.checkpoints() / "abandoned-step-6" / "DONE"));
  EXPECT_EQ(run.metrics().size(), 3u);
  EXPECT_THAT(run.said, HasSubstr("set aside as abandoned-step-N: 6, 4"));
  run.config.train.stop_after.reset();
  run.train("auto");
  expect_same_curve(run, again);
  expect_same_checkpoint(run.checkpoints() / "step-6", again.checkpoints() / "step-6");
}

TEST(ResumeFrom, AutoWithoutACheckpointStartsAnew) {
  TinyRun run, reference;
  reference.train();
  run.config.checkpoint.last = false;
  run.config.train.stop_after = 4;
  EXPECT_FALSE(run.train().resumable);
  EXPECT_FALSE(fs::exists(run.checkpoints() / "step-4"));
  run.config.train.stop_after.reset();
  EXPECT_EQ(run.train("auto").step, 6);
  expect_same_curve(run, reference);
}

TEST(ResumeFrom, AFinishedRunIsLeftAsItIs) {
  TinyRun run;
  run.train();
  const auto before = run.metrics();
  EXPECT_EQ(run.train("auto").step, 6);
  EXPECT_EQ(run.metrics().size(), before.size());
  EXPECT_EQ(checkpoint::list_steps(run.checkpoints()), (std::vector<int64_t>{6}));
}

// The step counter, the first-step logic and the next batch, seen from inside.
TEST(Restore, PutsEverythingBack) {
  TinyRun run;
  run.config.train.tokens_per_step = 4 * 64;
  auto saved = run.session();
  for (int i = 0; i < 3; ++i) step(*saved);
  const fs::path path = checkpoint::save(run.folder / "saved", snapshot(*saved));

  auto restored = run.session();
  restore(*restored, checkpoint::open_checkpoint(path));
  EXPECT_EQ(restored->progress.step, 3);
  EXPECT_EQ(restored->progress.tokens_seen, 3 * 4 * 64);
  EXPECT_EQ(restored->batches->state(), saved->batches->state());
  const auto a = snapshot(*saved), b = snapshot(*restored);
  for (const char* group : {"model", "optimizer"}) {
    EXPECT_EQ(first_difference(a.groups.at(group), b.groups.at(group)), "") << group;
  }
  data::Batch next, same;
  ASSERT_TRUE(saved->batches->next(next) && restored->batches->next(same));
  EXPECT_EQ(next.tokens, same.tokens);
  EXPECT_EQ(next.targets, same.targets);
  EXPECT_EQ(next.positions, same.positions);
  EXPECT_EQ(next.documents, same.documents);
}

TEST(Restore, RefreshesTheComputeCopies) {
  TinyRun run;
  run.config.train.precision = "bf16";
  auto saved = run.session();
  step(*saved);
  const fs::path path = checkpoint::save(run.folder / "saved", snapshot(*saved));
  auto restored = run.session();
  restore(*restored, checkpoint::open_checkpoint(path));
  for (const model::Parameter* p : model::parameters(std::as_const(restored->decoder))) {
    if (p->compute.defined()) {
      EXPECT_TRUE(equal_bits(p->compute, p->master.to(at::kBFloat16))) << p->name;
    }
  }
}

// An asynchronous save is of the moment it was asked for, whatever happens before it is written.
TEST(AsyncSave, TrainingMovesOnAndTheFileStays) {
  TinyRun run;
  report::Console console(run.terminal());
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  auto session = run.session();
  step(*session);
  const auto before = checkpoint::stage(snapshot(*session));
  {
    Saver saver(run.config.checkpoint, run.folder / "c", console, std::nullopt,
                [&](std::string_view point) {
                  if (point == "created") opened.wait();
                });
    saver.save(*session);  // returns while the writer stands at its gate
    for (int i = 0; i < 3; ++i) step(*session);
    EXPECT_NE(first_difference(before.groups.at("model"), snapshot(*session).groups.at("model")),
              "");
    EXPECT_TRUE(checkpoint::list_steps(run.folder / "c").empty());  // half-written is not there
    open.set_value();
    saver.finish();
    EXPECT_EQ(saver.last_saved(), 1);

    // Two in a row: the second waits for the buffer, the first keeps its values.
    const auto second = checkpoint::stage(snapshot(*session));
    saver.save(*session);
    step(*session);
    const auto third = checkpoint::stage(snapshot(*session));
    saver.save(*session);
    step(*session);
    saver.finish();
    for (const auto* staged : {&before, &second, &third}) {
      const auto file =
          checkpoint::open_checkpoint(checkpoint::step_path(run.folder / "c", staged->step));
      for (const char* group : {"model", "optimizer"}) {
        auto in_memory = staged->groups.at(group);
        std::vector<checkpoint::NamedTensor> in_file;
        for (const auto& t : in_memory) in_file.push_back({t.name, at::empty_like(t.tensor)});
        file.load_into(group, in_file);
        EXPECT_EQ(first_difference(in_memory, in_file), "") << group << " " << staged->step;
      }
      EXPECT_EQ(file.state().at("data"), staged->state.at("data"));
    }
  }
}

// A checkpoint of one step of the tiny recipe, and sessions of changed ones against it.
struct Changes : ::testing::Test {
  TinyRun run;
  fs::path path;

  Changes() {
    auto session = run.session();
    step(*session);
    path = checkpoint::save(run.folder / "saved", snapshot(*session));
  }

  void restore_with(const std::vector<std::string>& sets) {
    RunConfig changed = run.config;
    config::apply_sets(sets, changed);
    auto session = open_session(changed, c10::kCPU);
    restore(*session, checkpoint::open_checkpoint(path));
    EXPECT_EQ(session->progress.step, 1);
  }
};

TEST_F(Changes, ThatMayNotBeAreNamed) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"run.seed", "7"},
      {"model.rope_theta", "10000.0"},
      {"data.shuffle", "false"},
      {"data.packing", "first_fit"},
      {"data.add_bos", "false"},
      {"data.validation_fraction", "0.2"},
      {"train.tokens_per_batch", "32"},
      {"train.tokens_per_step", "128"},
      {"train.max_context", "32"},
      {"train.precision", "bf16"},
      {"optim.lr", "0.5"},
      {"optim.beta2", "0.9"},
      {"optim.weight_decay", "0.0"},
      {"optim.schedule.warmup_steps", "3"},
  };
  for (const auto& [key, value] : refused) {
    EXPECT_THAT(error_of([&] { restore_with({key + "=" + value}); }),
                AllOf(HasSubstr("may not change"), HasSubstr("\n" + key + ": "),
                      HasSubstr("in the checkpoint"), HasSubstr(" now")))
        << key;
  }
}

TEST_F(Changes, AreNamedAllAtOnceWithBothValues) {
  EXPECT_THAT(
      error_of([&] {
        restore_with({"run.seed=7", "optim.lr=0.5", "train.steps=9"});
      }),
      AllOf(HasSubstr("run.seed: 42 in the checkpoint, 7 now"),
            HasSubstr("optim.lr: 0.01 in the checkpoint, 0.5 now"), Not(HasSubstr("train.steps"))));
}

TEST_F(Changes, ThatMayBeAreAccepted) {
  for (const std::string set :
       {"train.steps=9", "train.stop_after=3", "run.dir=elsewhere", "run.name=other",
        "train.validation_interval=5", "train.sample_tokens=3", "train.deterministic=false",
        "checkpoint.interval=2", "checkpoint.keep=1", "checkpoint.async=false",
        "checkpoint.on_error=continue", "metrics.interval=3", "data.prefetch=0", "device.threads=2",
        "memory.host_limit=\"1 GiB\""}) {
    EXPECT_NO_THROW(restore_with({set})) << set;
  }
}

TEST_F(Changes, TheSameTextElsewhereMayOtherTextMayNot) {
  const std::string moved = run.folder.write("moved.txt", testing::made_up_text());
  EXPECT_NO_THROW(restore_with({"data.files=[\"" + moved + "\"]"}));
  const std::string other = run.folder.write("other.txt", testing::made_up_text(40, 2));
  EXPECT_THAT(error_of([&] { restore_with({"data.files=[\"" + other + "\"]"}); }),
              HasSubstr("data"));
}

TEST_F(Changes, OfTheModelNameItsFirstTensorAndBothShapes) {
  EXPECT_THAT(error_of([&] { restore_with({"model.ffn=32"}); }),
              AllOf(HasSubstr("layers.0.feed_forward.w13.weight"), HasSubstr("[64, 16]"),
                    HasSubstr("[48, 16]"), HasSubstr("model.safetensors")));
  EXPECT_THAT(
      error_of([&] { restore_with({"model.vocab=310"}); }),
      AllOf(HasSubstr("tok_embeddings.weight"), HasSubstr("[310, 16]"), HasSubstr("[300, 16]")));
  EXPECT_THAT(error_of([&] { restore_with({"model.layers=3"}); }), HasSubstr("layers.2."));
  EXPECT_THAT(error_of([&] { restore_with({"model.layers=1"}); }), HasSubstr("layers.1."));
}

TEST_F(Changes, OfTheMomentsDtypeAreRefused) {
  EXPECT_THAT(error_of([&] { restore_with({"optim.moments=bf16"}); }), HasSubstr("optim.moments"));
}

TEST_F(Changes, StateThatLacksAMemberIsNamed) {
  auto session = run.session();
  step(*session);
  for (const char* key : {"tokens_seen", "data", "config"}) {
    checkpoint::Snapshot lacking = snapshot(*session);
    ASSERT_EQ(lacking.state.erase(key), 1u);
    checkpoint::save(run.folder / "saved", lacking);
    EXPECT_THAT(error_of([&] { restore_with({}); }),
                AllOf(HasSubstr("state.json"), HasSubstr(key)));
    lacking.state[key] = nullptr;
    checkpoint::save(run.folder / "saved", lacking);
    EXPECT_THAT(error_of([&] { restore_with({}); }), HasSubstr(path.string())) << key;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
