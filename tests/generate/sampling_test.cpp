#include "plimsoll/generate/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/expect_error.h"

namespace plimsoll::generate {
namespace {

using plimsoll::testing::error_of;
using ::testing::HasSubstr;

// Shares of `draws` tokens.
std::map<int32_t, double> shares(const std::vector<float>& logits, const SamplingConfig& config,
                                 int draws = 20000) {
  std::mt19937_64 random(config.seed);
  std::map<int32_t, double> out;
  for (int i = 0; i < draws; ++i) out[sample(logits, config, random)] += 1.0 / draws;
  return out;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> out;
  for (double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

TEST(Sampling, FollowsTheDistribution) {
  const auto got = shares(logs({0.1, 0.6, 0.3}), {});
  EXPECT_NEAR(got.at(0), 0.1, 0.015);
  EXPECT_NEAR(got.at(1), 0.6, 0.02);
  EXPECT_NEAR(got.at(2), 0.3, 0.02);
}

TEST(Sampling, TemperatureSharpensAndFlattens) {
  // p^(1/T), normed: 0.2 and 0.8 become 1/17 and 16/17 at T = 1/2, 1/3 and 2/3 at T = 2.
  EXPECT_NEAR(shares(logs({0.2, 0.8}), {.temperature = 0.5}).at(0), 1.0 / 17, 0.01);
  EXPECT_NEAR(shares(logs({0.2, 0.8}), {.temperature = 2}).at(0), 1.0 / 3, 0.02);
}

TEST(Sampling, TemperatureZeroIsTheLikeliestAndTheFirstOfEquals) {
  std::mt19937_64 random(1);
  const SamplingConfig greedy{.temperature = 0};
  EXPECT_EQ(sample(std::vector<float>{1, 3, 2}, greedy, random), 1);
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3}, greedy, random), 1);
  // And it draws nothing.
  EXPECT_EQ(random, std::mt19937_64(1));
}

TEST(Sampling, TopKKeepsTheKLikeliest) {
  const auto got = shares(logs({0.1, 0.4, 0.2, 0.3}), {.top_k = 2});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got.at(1), 4.0 / 7, 0.02);
  EXPECT_NEAR(got.at(3), 3.0 / 7, 0.02);
  EXPECT_EQ(shares({5, 5, 5}, {.top_k = 1}).begin()->first, 0);
  EXPECT_EQ(shares(logs({0.5, 0.5}), {.top_k = 100}).size(), 2u);
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  const std::vector<float> logits = logs({0.05, 0.5, 0.15, 0.3});
  EXPECT_EQ(shares(logits, {.top_p = 0.4}).size(), 1u);
  const auto two = shares(logits, {.top_p = 0.75});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(1), 5.0 / 8, 0.02);
  EXPECT_EQ(shares(logits, {.top_p = 0.9}).size(), 3u);
  EXPECT_EQ(shares(logits, {.top_p = 1e-9}).size(), 1u);
}

TEST(Sampling, TopPCountsWhatTopKLeft) {
  // Of the two likeliest, 5/8 and 3/8: the first alone reaches 0.6 of them, not of all four.
  EXPECT_EQ(shares(logs({0.05, 0.5, 0.15, 0.3}), {.top_k = 2, .top_p = 0.6}).size(), 1u);
}

TEST(Sampling, ASeedGivesTheSameDraws) {
  const std::vector<float> logits(50, 0.0F);
  auto draws = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> out;
    for (int i = 0; i < 20; ++i) out.push_back(sample(logits, {}, random));
    return out;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
}

TEST(Sampling, ManyEqualLogitsAreDrawnEvenly) {
  const auto got = shares(std::vector<float>(8, -3.0F), {}, 40000);
  ASSERT_EQ(got.size(), 8u);
  for (auto [id, share] : got) EXPECT_NEAR(share, 0.125, 0.012) << id;
}

TEST(Sampling, WhatIsNotFiniteIsNeverTaken) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto got = shares({nan, 0, -inf, 0}, {}, 1000);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_TRUE(got.contains(1) && got.contains(3));
  std::mt19937_64 random(1);
  const std::vector<float> none = {nan, -inf};
  EXPECT_THAT(error_of([&] { sample(none, {}, random); }), HasSubstr("not finite"));
  EXPECT_THAT(error_of([&] { sample(none, {.temperature = 0}, random); }), HasSubstr("not finite"));
}

TEST(Sampling, LargeLogitsAndSmallTemperaturesDoNotOverflow) {
  EXPECT_EQ(shares({3e38F, -3e38F}, {.temperature = 1e-300}, 100).begin()->first, 0);
  EXPECT_EQ(shares({-1000, -2000}, {}, 100).begin()->first, 0);
}

TEST(Sampling, OddValuesAreNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([&] { check({.temperature = nan}); }), HasSubstr("temperature = nan"));
  EXPECT_THAT(error_of([&] { check({.temperature = -1}); }), HasSubstr("temperature = -1"));
  EXPECT_THAT(error_of([&] { check({.top_k = -1}); }), HasSubstr("top-k = -1"));
  EXPECT_THAT(error_of([&] { check({.top_p = 0}); }), HasSubstr("top-p = 0"));
  EXPECT_THAT(error_of([&] { check({.top_p = 1.5}); }), HasSubstr("top-p = 1.5"));
  EXPECT_THAT(error_of([&] { check({.top_p = nan}); }), HasSubstr("top-p = nan"));
  EXPECT_NO_THROW(check({.temperature = 0, .top_k = 0, .top_p = 1}));
}

}  // namespace
}  // namespace plimsoll::generate
