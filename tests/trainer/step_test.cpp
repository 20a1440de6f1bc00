#include "plimsoll/trainer/step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/checkpoint/steps.h"
#include "tests/expect_error.h"
#include "tests/trainer/tiny_run.h"

namespace plimsoll::trainer {
namespace {

using plimsoll::testing::error_of;
using ::testing::AllOf;
using testing::first_difference;
using ::testing::HasSubstr;
using testing::TinyRun;

std::vector<data::Batch> next_batches(Session& s, int n) {
  std::vector<data::Batch> out(n);
  for (data::Batch& b : out) EXPECT_TRUE(s.batches->next(b));
  return out;
}

std::vector<DeviceBatch> to_cpu(const std::vector<data::Batch>& batches) {
  std::vector<DeviceBatch> out;
  for (const data::Batch& b : batches) out.push_back(to_device(b, c10::kCPU));
  return out;
}

// The same rows behind one another, as one.
data::Batch joined(const std::vector<data::Batch>& batches) {
  data::Batch out;
  out.documents = {0};
  for (const data::Batch& b : batches) {
    const auto begin = static_cast<int32_t>(out.tokens.size());
    out.tokens.insert(out.tokens.end(), b.tokens.begin(), b.tokens.end());
    out.targets.insert(out.targets.end(), b.targets.begin(), b.targets.end());
    out.positions.insert(out.positions.end(), b.positions.begin(), b.positions.end());
    for (size_t i = 1; i < b.documents.size(); ++i) out.documents.push_back(begin + b.documents[i]);
  }
  return out;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

TEST(TrainStep, AccumulatingFourBatchesIsOneOfTheSameRows) {
  TinyRun run;
  auto parts = run.session(), whole = run.session();
  std::vector<data::Batch> batches = next_batches(*parts, 4);
  // Rows whose tokens do not all count: a mean of means would be another number.
  std::fill(batches[1].targets.begin(), batches[1].targets.end() - 5, data::kNoLoss);
  const StepResult a = train_step(parts->decoder, *parts->optimizer, to_cpu(batches), 1.0, 64);
  const StepResult b =
      train_step(whole->decoder, *whole->optimizer, to_cpu({joined(batches)}), 1.0, 64);
  EXPECT_EQ(a.valid_tokens, b.valid_tokens);
  EXPECT_EQ(b.valid_tokens, joined(batches).valid_tokens());
  EXPECT_NEAR(a.loss.item<double>(), b.loss.item<double>(), 2e-6 * b.loss.item<double>());
  EXPECT_LT(relative(a.clipped.norm, b.clipped.norm), 1e-5);
  const auto left = model::parameters(parts->decoder), right = model::parameters(whole->decoder);
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_LT(relative(left[i]->master.grad(), right[i]->master.grad()), 1e-5) << left[i]->name;
  }
}

TEST(TrainStep, LossIsTheMeanOverAllTokensThatCount) {
  TinyRun run;
  auto session = run.session();
  std::vector<data::Batch> batches = next_batches(*session, 2);
  std::fill(batches[0].targets.begin() + 3, batches[0].targets.end(), data::kNoLoss);
  double sum = 0;
  int64_t count = 0;
  {
    c10::NoGradGuard no_grad;
    for (const DeviceBatch& b : to_cpu(batches)) {
      sum += loss_sum(session->decoder, b, 16).item<double>();
      count += b.valid_tokens;
    }
  }
  const StepResult got =
      train_step(session->decoder, *session->optimizer, to_cpu(batches), 1.0, 16);
  EXPECT_NEAR(got.loss.item<double>(), sum / static_cast<double>(count), 1e-5);
  // About that of equally likely tokens before any training.
  EXPECT_NEAR(got.loss.item<double>(), std::log(300.0), 1.5);
}

TEST(TrainStep, ChunksOfTheLossDoNotMatter) {
  TinyRun run;
  auto session = run.session();
  const auto batches = to_cpu(next_batches(*session, 1));
  c10::NoGradGuard no_grad;
  const double whole = loss_sum(session->decoder, batches[0], 1 << 20).item<double>();
  for (int64_t chunk : {1, 7, 64}) {
    EXPECT_NEAR(loss_sum(session->decoder, batches[0], chunk).item<double>(), whole, 1e-3) << chunk;
  }
}

TEST(TrainStep, NothingThatCountsIsNoUpdateOfTheWeightsByGradients) {
  TinyRun run;
  auto session = run.session();
  std::vector<data::Batch> batches = next_batches(*session, 1);
  std::fill(batches[0].targets.begin(), batches[0].targets.end(), data::kNoLoss);
  const StepResult got = train_step(session->decoder, *session->optimizer, to_cpu(batches), 1, 64);
  EXPECT_EQ(got.valid_tokens, 0);
  EXPECT_EQ(got.loss.item<double>(), 0);
  EXPECT_EQ(got.clipped.found_inf.item<double>(), 0);
}

TEST(TrainStep, ANonFiniteLossChangesNothing) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    TinyRun run;
    run.config.train.precision = "bf16";
    auto session = run.session();
    testing::step(*session);
    {
      c10::NoGradGuard no_grad;
      session->decoder.blocks[1].ffn_norm.master.fill_(bad);
    }
    const auto before = checkpoint::stage(snapshot(*session));
    const StepResult got = testing::step(*session);
    EXPECT_FALSE(std::isfinite(got.loss.item<double>()));
    EXPECT_EQ(got.clipped.found_inf.item<double>(), 1);
    const auto after = snapshot(*session);
    // Weights, moments and the count of updates.
    for (const char* group : {"model", "optimizer"}) {
      EXPECT_EQ(first_difference(before.groups.at(group), after.groups.at(group)), "") << group;
    }
  }
}

// A whole run whose learning rate throws the weights out of all bounds.
TEST(NonFinite, StopsTheRunAndNamesTheStep) {
  TinyRun run;
  run.config.optim.lr = 1e30;
  run.config.optim.schedule.warmup_steps = 0;
  run.config.checkpoint.interval = 1;
  const std::string message = error_of([&] { run.train(); });
  const auto metrics = run.metrics();
  ASSERT_FALSE(metrics.empty());
  const int64_t bad = metrics.back().step;
  EXPECT_GE(bad, 2);
  EXPECT_LT(bad, 6);
  EXPECT_THAT(message, AllOf(HasSubstr("step " + std::to_string(bad) + ":"),
                             HasSubstr("not finite"), HasSubstr("skipped")));
  // Only what was good is saved.
  std::vector<int64_t> good;
  for (int64_t s = std::max<int64_t>(1, bad - 3); s < bad; ++s) good.push_back(s);
  EXPECT_EQ(checkpoint::list_steps(run.checkpoints()), good);
}

TEST(Validation, IsTheMeanOverTokensAndEndsAtItsBound) {
  TinyRun run;
  run.config.data.validation_fraction = 0.3;
  auto session = run.session();
  auto stream = [&] {
    return data::BatchStream(session->corpus.validation, {.tokens_per_batch = 64,
                                                          .max_context = 48,
                                                          .shuffle = false,
                                                          .repeat = false,
                                                          .pad_last = true});
  };
  double sum = 0;
  int64_t tokens = 0;
  data::Batch batch;
  auto all = stream();
  while (all.next(batch)) {
    c10::NoGradGuard no_grad;
    sum += loss_sum(session->decoder, to_device(batch, c10::kCPU), 64).item<double>();
    tokens += batch.valid_tokens();
  }
  ASSERT_GT(tokens, 128);
  const ValidationResult whole = validate(session->decoder, stream(), 1 << 20, 64);
  EXPECT_EQ(whole.tokens, tokens);
  EXPECT_NEAR(whole.loss, sum / static_cast<double>(tokens), 1e-9);
  // Whole rows until the bound is passed; no gradient is left behind.
  const ValidationResult some = validate(session->decoder, stream(), 65, 64);
  EXPECT_GE(some.tokens, 65);
  EXPECT_LT(some.tokens, tokens);
  EXPECT_FALSE(session->decoder.norm.master.grad().defined());
  int asked = 0;
  const ValidationResult cut =
      validate(session->decoder, stream(), 1 << 20, 64, [&] { return ++asked > 1; });
  EXPECT_GT(cut.tokens, 0);
  EXPECT_LE(cut.tokens, 64) << "one row";
}

}  // namespace
}  // namespace plimsoll::trainer
