#include "plimsoll/generate/generator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/expect_error.h"

namespace plimsoll::generate {
namespace {

using plimsoll::testing::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kContext = 24;
constexpr int32_t kVocab = 61;

model::Decoder tiny(const std::string& architecture, at::ScalarType compute = at::kFloat) {
  model::DecoderConfig c = model::preset(architecture, "debugmodel");
  c.dim = 32;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.ffn = 48;
  c.vocab = kVocab;
  model::Decoder d = model::build(c, {.compute = compute, .max_context = kContext, .seed = 3});
  // The initial weights hardly mix tokens; larger ones make a mistake in the cache visible.
  c10::NoGradGuard no_grad;
  for (model::Parameter* p : model::parameters(d)) {
    if (p->master.dim() == 2) p->master.mul_(4);
  }
  model::refresh_compute(d);
  return d;
}

std::vector<int32_t> tokens_of(int64_t n) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>((i * i * 7 + 5) % kVocab));
  return out;
}

// Logits [n, vocab] of all tokens in one go, without a cache.
at::Tensor full_logits(const model::Decoder& d, const std::vector<int32_t>& tokens) {
  c10::NoGradGuard no_grad;
  auto ints = at::TensorOptions().dtype(at::kInt);
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int32_t> documents = {0, static_cast<int32_t>(tokens.size())};
  model::PackedRow row{.tokens = at::tensor(tokens, ints),
                       .positions = at::tensor(positions, ints),
                       .documents = at::tensor(documents, ints)};
  return model::logits(d, model::forward(d, row)).to(at::kFloat);
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

struct Generator : ::testing::TestWithParam<const char*> {
  model::Decoder decoder = tiny(GetParam());

  std::vector<int32_t> run(const Request& request, End end = End::kMaxTokens) const {
    std::vector<int32_t> out;
    const Generated got = generate(decoder, request, [&](int32_t id) {
      out.push_back(id);
      return true;
    });
    EXPECT_EQ(got.tokens, std::ssize(out));
    EXPECT_EQ(got.end, end);
    return out;
  }
};

TEST_P(Generator, CachedLogitsAreThoseOfTheFullForward) {
  const std::vector<int32_t> tokens = tokens_of(kContext);
  const at::Tensor full = full_logits(decoder, tokens);
  ASSERT_GT(full.std().item<double>(), 0.1);
  for (int64_t prompt : {int64_t{1}, int64_t{2}, int64_t{9}, kContext}) {
    KvCache cache(decoder, kContext);
    at::Tensor got = extend(decoder, cache, std::span(tokens).first(prompt));
    EXPECT_EQ(got.scalar_type(), at::kFloat);
    EXPECT_LE(difference(got, full[prompt - 1]), 1e-5) << "prompt " << prompt;
    for (int64_t i = prompt; i < kContext; ++i) {
      got = extend(decoder, cache, std::span(tokens).subspan(i, 1));
      EXPECT_LE(difference(got, full[i]), 1e-5) << "prompt " << prompt << ", token " << i;
      EXPECT_EQ(cache.length(), i + 1);
    }
  }
}

TEST_P(Generator, EarlierTokensMatter) {
  std::vector<int32_t> a = tokens_of(6), b = a;
  b[0] = (b[0] + 1) % kVocab;
  KvCache one(decoder, kContext), two(decoder, kContext);
  for (int32_t t : a) extend(decoder, one, {&t, 1});
  for (int32_t t : b) extend(decoder, two, {&t, 1});
  const int32_t next = 1;
  EXPECT_GT(difference(extend(decoder, one, {&next, 1}), extend(decoder, two, {&next, 1})), 1e-3);
}

TEST_P(Generator, GreedyTokensAreThoseOfTheFullForward) {
  std::vector<int32_t> tokens = tokens_of(4);
  const std::vector<int32_t> got =
      run({.prompt = tokens, .max_tokens = 15, .sampling = {.temperature = 0}});
  ASSERT_EQ(got.size(), 15u);
  for (int32_t id : got) {
    const at::Tensor last = full_logits(decoder, tokens)[std::ssize(tokens) - 1];
    EXPECT_EQ(id, at::argmax(last).item<int32_t>()) << "after " << tokens.size() << " tokens";
    tokens.push_back(id);
  }
}

TEST_P(Generator, Bf16StaysNearTheFullForward) {
  const model::Decoder half = tiny(GetParam(), at::kBFloat16);
  const std::vector<int32_t> tokens = tokens_of(12);
  const at::Tensor full = full_logits(half, tokens);
  KvCache cache(half, kContext);
  at::Tensor got = extend(half, cache, std::span(tokens).first(5));
  for (size_t i = 5; i < tokens.size(); ++i) got = extend(half, cache, {&tokens[i], 1});
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  EXPECT_LE(difference(got, full[11]), 0.05 * full.abs().max().item<double>());
}

TEST_P(Generator, SeedsDecide) {
  Request r{.prompt = tokens_of(3), .max_tokens = 12, .sampling = {.seed = 5}};
  const std::vector<int32_t> first = run(r);
  EXPECT_EQ(first, run(r));
  r.sampling.seed = 6;
  EXPECT_NE(first, run(r));
}

TEST_P(Generator, EndsWhereTheContextEnds) {
  const Request r{
      .prompt = tokens_of(kContext - 3), .max_tokens = 1000, .sampling = {.temperature = 0}};
  // Three more fit, and the last of them says what would follow.
  EXPECT_EQ(run(r, End::kContext).size(), 4u);
  EXPECT_EQ(run({.prompt = tokens_of(kContext), .max_tokens = 1000}, End::kContext).size(), 1u);
  EXPECT_EQ(
      run({.prompt = tokens_of(kContext - 3), .max_tokens = std::numeric_limits<int64_t>::max()},
          End::kContext)
          .size(),
      4u);
  EXPECT_EQ(run({.prompt = tokens_of(kContext - 3), .max_tokens = 4}).size(), 4u);
  EXPECT_EQ(context_of(decoder), kContext);
}

TEST_P(Generator, StopTokenEndsItAndIsNotReported) {
  Request r{.prompt = tokens_of(3), .max_tokens = 15, .sampling = {.temperature = 0}};
  const std::vector<int32_t> all = run(r);
  r.stop = all[5];
  std::vector<int32_t> expected;
  for (int32_t id : all) {
    if (id == *r.stop) break;
    expected.push_back(id);
  }
  EXPECT_EQ(run(r, End::kStop), expected);
}

TEST_P(Generator, TheCallerMayStopIt) {
  int calls = 0;
  const Generated got = generate(decoder, {.prompt = tokens_of(3), .max_tokens = 10},
                                 [&](int32_t) { return ++calls < 4; });
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(got.tokens, 4);
  EXPECT_EQ(got.end, End::kCaller);
  EXPECT_TRUE(run({.prompt = tokens_of(3), .max_tokens = 0}).empty());
}

TEST_P(Generator, WhatCannotBeMetIsNamed) {
  auto failing = [&](Request r) {
    return error_of([&] { generate(decoder, r, [](int32_t) { return true; }); });
  };
  EXPECT_THAT(failing({}), HasSubstr("no tokens"));
  EXPECT_THAT(failing({.prompt = tokens_of(kContext + 1)}),
              AllOf(HasSubstr("25 tokens"), HasSubstr("for 24"), HasSubstr("train.max_context")));
  EXPECT_THAT(failing({.prompt = {1}, .max_tokens = -1}), HasSubstr("max-tokens = -1"));
  EXPECT_THAT(failing({.prompt = {1, kVocab}}), AllOf(HasSubstr("token 61"), HasSubstr("0 to 60")));
  EXPECT_THAT(failing({.prompt = {-1}}), HasSubstr("token -1"));
  EXPECT_THAT(failing({.prompt = {1}, .sampling = {.top_p = 2}}), HasSubstr("top-p = 2"));
}

TEST_P(Generator, ACacheRefusesWhatItHasNoRoomFor) {
  KvCache cache(decoder, 4);
  const std::vector<int32_t> tokens = tokens_of(5);
  EXPECT_THAT(error_of([&] { extend(decoder, cache, tokens); }),
              AllOf(HasSubstr("5 tokens"), HasSubstr("the 4")));
  EXPECT_THAT(error_of([&] { extend(decoder, cache, {}); }), HasSubstr("nothing to extend"));
  EXPECT_EQ(cache.length(), 0);
  extend(decoder, cache, std::span(tokens).first(2));
  EXPECT_THAT(error_of([&] { extend(decoder, cache, std::span(tokens).first(2)); }),
              HasSubstr("only a first call"));
  EXPECT_EQ(cache.length(), 2);
}

INSTANTIATE_TEST_SUITE_P(Models, Generator, ::testing::Values("llama3", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace plimsoll::generate
