// Bits of the CPU forms do not depend on the number of threads (matrix products aside), and a
// gradient is the same every time.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "plimsoll/ops/attention.h"
#include "plimsoll/ops/embedding.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/rms_norm.h"
#include "plimsoll/ops/swiglu.h"
#include "tests/ops/testing.h"

namespace plimsoll::ops {
namespace {

using testing::random;
using Tensors = std::vector<at::Tensor>;

void expect_same_bits(const char* name, const testing::Function& f, const Tensors& inputs) {
  const int threads = at::get_num_threads();
  Tensors first;
  for (int count : {1, 2, 5, 5}) {
    at::set_num_threads(count);
    auto all = f(inputs);
    for (auto& g : testing::gradients(f, inputs)) all.push_back(g);
    if (first.empty()) first = all;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(testing::equal_bits(all[i], first[i])) << name << " " << i << " at " << count;
    }
  }
  at::set_num_threads(threads);
}

TEST(Threads, DoNotChangeBits) {
  const HeadLayout l{4, 2, 16};
  const int64_t n = 700;
  auto documents = testing::offsets({300, 1, 399}),
       positions = testing::positions_of({300, 1, 399});
  auto table = rope_table(16, 400, 1e4);
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    auto qkv = random({n, l.width()}, dtype, 1), x = random({n, 96}, dtype, 2);
    auto w = random({96}, at::kFloat, 3), hw = random({16}, at::kFloat, 4);
    expect_same_bits("add_rms_norm",
                     [](const Tensors& t) {
                       auto [sum, y] = add_rms_norm(t[0], t[1], t[2], 1e-5);
                       return Tensors{sum, y};
                     },
                     {x, random({n, 96}, dtype, 5), w});
    expect_same_bits("qk_norm",
                     [&](const Tensors& t) { return Tensors{qk_norm(t[0], t[1], t[2], l, 1e-6)}; },
                     {qkv, hw, hw.neg()});
    expect_same_bits("rope",
                     [&](const Tensors& t) {
                       return Tensors{rope(t[0], table, positions, l, RopePairs::kHalves)};
                     },
                     {qkv});
    expect_same_bits("swiglu", [](const Tensors& t) { return Tensors{swiglu(t[0])}; }, {x});
    expect_same_bits("attention",
                     [&](const Tensors& t) { return Tensors{attention(t[0], documents, l)}; },
                     {qkv});
    auto ids = testing::random_ids(n, 11, 6);
    expect_same_bits("embedding",
                     [&](const Tensors& t) { return Tensors{ops::embedding(ids, t[0])}; },
                     {random({11, 96}, dtype, 7)});
  }
}

}  // namespace
}  // namespace plimsoll::ops
