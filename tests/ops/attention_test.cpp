#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/attention.h"
#include "plimsoll/ops/cpu/attention_kernels.h"
#include "plimsoll/ops/plain.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::gradients;
using testing::offsets;
using testing::random;
using testing::relative_difference;
using Lengths = std::vector<int64_t>;
using Tensors = std::vector<at::Tensor>;

int64_t total(const Lengths& lengths) {
  int64_t n = 0;
  for (int64_t l : lengths) n += l;
  return n;
}

/// Each document through torch's own attention, key heads repeated by hand.
at::Tensor reference(const at::Tensor& qkv, const Lengths& lengths, const HeadLayout& l) {
  Tensors rows;
  int64_t from = 0;
  for (int64_t length : lengths) {
    auto x = qkv.narrow(0, from, length).reshape({length, l.heads + 2 * l.kv_heads, l.head_dim});
    auto head = [&](int64_t i) { return x.select(1, i); };
    Tensors q, k, v;
    for (int64_t h = 0; h < l.heads; ++h) {
      const int64_t kv = h / (l.heads / l.kv_heads);
      q.push_back(head(h).unsqueeze(0));
      k.push_back(head(l.heads + kv).unsqueeze(0));
      v.push_back(head(l.heads + l.kv_heads + kv).unsqueeze(0));
    }
    auto o = at::scaled_dot_product_attention(at::cat(q).unsqueeze(0), at::cat(k).unsqueeze(0),
                                              at::cat(v).unsqueeze(0), {}, 0.0, true);
    rows.push_back(o.squeeze(0).transpose(0, 1).reshape({length, l.heads * l.head_dim}));
    from += length;
  }
  return at::cat(rows);
}

TEST(Attention, GradientIsRightInDouble) {
  for (HeadLayout l : {HeadLayout{1, 1, 2}, HeadLayout{4, 2, 3}}) {
    for (const Lengths& lengths : {Lengths{1}, Lengths{4, 1, 3}}) {
      auto documents = offsets(lengths);
      auto f = [&](const Tensors& t) { return Tensors{attention(t[0], documents, l)}; };
      EXPECT_LT(testing::gradcheck(f, {random({total(lengths), l.width()}, at::kDouble, 1)}), 1e-7);
    }
  }
}

class AttentionIn : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, AttentionIn,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kDouble));

TEST_P(AttentionIn, MatchesTorchDocumentByDocument) {
  const auto dtype = GetParam();
  // bf16: inputs, probabilities and their gradients are rounded to 8 bits, o and the gradients
  // once more.
  const double tolerance = dtype == at::kBFloat16 ? 0.02 : dtype == at::kFloat ? 5e-6 : 1e-12;
  for (HeadLayout l : {HeadLayout{2, 2, 16}, HeadLayout{4, 2, 64}, HeadLayout{3, 1, 128},
                       HeadLayout{2, 1, 24}, HeadLayout{2, 2, 5}}) {
    for (const Lengths& lengths : {Lengths{1}, Lengths{1, 1, 1, 1}, Lengths{70}, Lengths{300, 37},
                                   Lengths{64, 64, 64}, Lengths{17, 17, 5, 0, 33, 1}}) {
      auto documents = offsets(lengths);
      auto x = random({total(lengths), l.width() + 2}, dtype, 7).narrow(1, 2, l.width());
      auto ours = [&](const Tensors& t) { return Tensors{attention(t[0], documents, l)}; };
      auto theirs = [&](const Tensors& t) {
        Lengths some;
        for (int64_t n : lengths) {
          if (n > 0) some.push_back(n);
        }
        return Tensors{reference(t[0], some, l)};
      };
      auto exact = x.to(at::kDouble);
      EXPECT_LT(relative_difference(ours({x})[0], theirs({exact})[0]), tolerance)
          << l.head_dim << " " << lengths.size();
      EXPECT_LT(relative_difference(gradients(ours, {x})[0], gradients(theirs, {exact})[0]),
                tolerance)
          << l.head_dim << " " << lengths.size();
    }
  }
}

TEST_P(AttentionIn, EqualsThePlainForm) {
  const auto dtype = GetParam();
  const double tolerance = dtype == at::kBFloat16 ? 0.02 : dtype == at::kFloat ? 5e-6 : 1e-12;
  const HeadLayout l{4, 2, 16};
  const Lengths lengths{270, 3, 515, 1};
  auto documents = offsets(lengths);
  auto x = random({total(lengths), l.width()}, dtype, 7);
  auto g = random({total(lengths), 64}, dtype, 8);
  auto [o, lse] = plain::attention(x, documents, 4, 2, 16, 0.25);
  auto dx = plain::attention_backward(g, x, o, lse, documents, 4, 2, 16, 0.25);
  auto leaf = x.clone().requires_grad_();
  Tensors saved;
  at::Tensor out;
  saved = testing::saved_by([&] { return out = attention(leaf, documents, l); });
  EXPECT_LT(relative_difference(out, o), tolerance);
  out.backward(g);
  EXPECT_LT(relative_difference(leaf.grad(), dx), tolerance);
  ASSERT_EQ(saved.size(), 4u);
  EXPECT_EQ(saved[0].data_ptr(), leaf.data_ptr());
  EXPECT_EQ(saved[1].data_ptr(), out.data_ptr());
  EXPECT_EQ(saved[2].sizes(), lse.sizes());
  EXPECT_EQ(saved[2].scalar_type(), lse.scalar_type());
  EXPECT_LT(relative_difference(saved[2], lse), tolerance);
  EXPECT_EQ(saved[3].data_ptr(), documents.data_ptr());
}

TEST_P(AttentionIn, NarrowerProcessorsAgree) {
  const auto dtype = GetParam();
  if (dtype == at::kDouble) GTEST_SKIP() << "has no kernel of its own";
  for (HeadLayout l :
       {HeadLayout{4, 2, 16}, HeadLayout{2, 1, 32}, HeadLayout{2, 2, 64}, HeadLayout{2, 1, 128}}) {
    auto documents = offsets({130, 1, 64});
    auto f = [&](const Tensors& t) { return Tensors{attention(t[0], documents, l)}; };
    auto x = random({195, l.width()}, dtype, 7);
    auto o = f({x})[0], dx = gradients(f, {x})[0];
    for (int lanes : {8, 4}) {
      cpu::limit_attention_width(lanes);
      auto narrow_o = f({x})[0], narrow_dx = gradients(f, {x})[0];
      cpu::limit_attention_width(16);
      // fp32 sums in another order; in bf16 one step of rounding.
      const double tolerance = dtype == at::kBFloat16 ? 0.008 : 5e-6;
      EXPECT_LT(relative_difference(narrow_o, o), tolerance) << l.head_dim << " " << lanes;
      EXPECT_LT(relative_difference(narrow_dx, dx), tolerance) << l.head_dim << " " << lanes;
    }
  }
}

TEST(Attention, SameBitsTwiceAndWhateverStandsInOtherDocuments) {
  const HeadLayout l{2, 1, 16};
  auto x = random({90, l.width()}, at::kBFloat16, 1), y = x.clone();
  y.narrow(0, 40, 50).copy_(random({50, l.width()}, at::kBFloat16, 2));
  auto documents = offsets({40, 50});
  auto a = attention(x, documents, l), b = attention(y, documents, l);
  EXPECT_TRUE(testing::equal_bits(a, attention(x, documents, l)));
  EXPECT_TRUE(testing::equal_bits(a.narrow(0, 0, 40), b.narrow(0, 0, 40)));
  EXPECT_FALSE(testing::equal_bits(a.narrow(0, 40, 50), b.narrow(0, 40, 50)));
}

TEST(Attention, RefusesBadDocuments) {
  const HeadLayout l{2, 1, 4};
  auto x = random({6, l.width()}, at::kFloat, 1);
  EXPECT_THROW(attention(x, offsets({5}), l), Error);
  EXPECT_THROW(attention(x, offsets({4, -1, 3}), l), Error);
  EXPECT_THROW(attention(x, offsets({6}).to(at::kLong), l), Error);
  EXPECT_THROW(attention(x, offsets({6}), HeadLayout{3, 2, 4}), Error);
  try {
    attention(x, offsets({7}), l);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("documents go from 0 to 7: must go from 0 to N = 6"));
  }
}

TEST(Attention, MetaGivesTheSameShapes) {
  const HeadLayout l{4, 2, 8};
  auto x = random({6, l.width()}, at::kBFloat16, 1).to(at::kMeta).requires_grad_();
  auto o = attention(x, offsets({2, 4}), l);
  EXPECT_EQ(o.sizes(), (std::vector<int64_t>{6, 32}));
  EXPECT_EQ(o.scalar_type(), at::kBFloat16);
  o.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

}  // namespace
}  // namespace plimsoll::ops
