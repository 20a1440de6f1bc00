// ops_bench [--smoke]: milliseconds per operator, forward and backward, at the shapes of the debug
// model (16,384 tokens, width 256, 16 heads of 16, 768 hidden, 2,048 entries), beside the same
// thing said in torch's own operators. Best of several runs; the last line is JSON.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "plimsoll/ops/adamw.h"
#include "plimsoll/ops/attention.h"
#include "plimsoll/ops/embedding.h"
#include "plimsoll/ops/heads.h"
#include "plimsoll/ops/linear.h"
#include "plimsoll/ops/linear_cross_entropy.h"
#include "plimsoll/ops/rms_norm.h"
#include "plimsoll/ops/swiglu.h"

namespace {

namespace ops = plimsoll::ops;
using Tensors = std::vector<at::Tensor>;
using Forward = std::function<Tensors()>;

struct Shape {
  int64_t rows = 8, length = 2048, width = 256, heads = 16, head_dim = 16, hidden = 768,
          entries = 2048, params = 8 << 20;
  int repeats = 5;
  int64_t n() const { return rows * length; }
};

double now_ms() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(t).count();
}

struct Times {
  double forward = std::numeric_limits<double>::infinity();
  double backward = std::numeric_limits<double>::infinity();
};

/// Best times of forward and backward; gradients go to `leaves`, from ones.
Times measure(int repeats, const Tensors& leaves, const Forward& forward) {
  Times best;
  for (int i = 0; i <= repeats; ++i) {
    for (const auto& leaf : leaves) leaf.mutable_grad() = at::Tensor();
    const double start = now_ms();
    auto out = forward();
    const double middle = now_ms();
    if (!leaves.empty()) {
      at::Tensor total;
      for (const auto& o : out) total = total.defined() ? total + o.sum() : o.sum();
      out.clear();
      const double before = now_ms();
      total.backward();
      if (i > 0) best.backward = std::min(best.backward, now_ms() - before);
    }
    if (i > 0) best.forward = std::min(best.forward, middle - start);
  }
  if (leaves.empty()) best.backward = 0;
  return best;
}

class Table {
 public:
  void add(const std::string& name, const char* dtype, const Times& ours, const Times& torch) {
    fmt::print(
        "{:22} {:5} forward {:9.3f} (torch {:9.3f})  backward {:9.3f} (torch {:9.3f})  {:5.2f}x\n",
        name, dtype, ours.forward, torch.forward, ours.backward, torch.backward,
        (torch.forward + torch.backward) / (ours.forward + ours.backward));
    if (!json_.empty()) json_ += ",";
    json_ += fmt::format(
        R"("{}_{}":{{"forward_ms":{:.4f},"backward_ms":{:.4f},"torch_forward_ms":{:.4f},"torch_backward_ms":{:.4f}}})",
        name, dtype, ours.forward, ours.backward, torch.forward, torch.backward);
    std::fflush(stdout);
  }
  void finish(const Shape& s) const {
    fmt::print(R"({{"bench":"ops","tokens":{},"threads":{},{}}})"
               "\n",
               s.n(), at::get_num_threads(), json_);
  }

 private:
  std::string json_;
};

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kFloat).to(dtype);
}

at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype) {
  return random(sizes, dtype).requires_grad_();
}

void norms(const Shape& s, at::ScalarType dtype, const char* name, Table& table) {
  auto x = leaf({s.n(), s.width}, dtype), r = leaf({s.n(), s.width}, dtype);
  auto w = leaf({s.width}, at::kFloat);
  table.add("rms_norm", name,
            measure(s.repeats, {x, w}, [&] { return Tensors{ops::rms_norm(x, w, 1e-5)}; }),
            measure(s.repeats, {x, w},
                    [&] { return Tensors{at::rms_norm(x, {s.width}, w.to(dtype), 1e-5)}; }));
  table.add("add_rms_norm", name,
            measure(s.repeats, {x, r, w},
                    [&] {
                      auto [sum, y] = ops::add_rms_norm(x, r, w, 1e-5);
                      return Tensors{sum, y};
                    }),
            measure(s.repeats, {x, r, w}, [&] {
              auto sum = x + r;
              return Tensors{sum, at::rms_norm(sum, {s.width}, w.to(dtype), 1e-5)};
            }));
}

void heads(const Shape& s, at::ScalarType dtype, const char* name, Table& table) {
  const ops::HeadLayout layout{s.heads, s.heads, s.head_dim};
  auto qkv = leaf({s.n(), layout.width()}, dtype);
  auto positions = at::arange(s.length, at::kInt).repeat({s.rows});
  auto angles = ops::rope_table(s.head_dim, s.length, 500000.0);
  auto parts = [&](int64_t first) {
    return qkv.view({s.rows, s.length, 3 * s.heads, s.head_dim})
        .narrow(2, first * s.heads, s.heads)
        .transpose(1, 2);
  };
  auto c = angles.select(1, 0).repeat({1, 2}).to(dtype),
       n = angles.select(1, 1).repeat({1, 2}).to(dtype);
  auto turn = [&](const at::Tensor& x) {
    auto halves = x.chunk(2, -1);
    return x * c + at::cat({-halves[1], halves[0]}, -1) * n;
  };
  for (auto pairs : {ops::RopePairs::kInterleaved, ops::RopePairs::kHalves}) {
    table.add(pairs == ops::RopePairs::kHalves ? "rope_halves" : "rope_interleaved", name,
              measure(s.repeats, {qkv},
                      [&] { return Tensors{ops::rope(qkv, angles, positions, layout, pairs)}; }),
              measure(s.repeats, {qkv}, [&] {
                return Tensors{turn(parts(0)), turn(parts(1))};
              }));
  }
  auto qw = leaf({s.head_dim}, at::kFloat), kw = leaf({s.head_dim}, at::kFloat);
  table.add("qk_norm", name,
            measure(s.repeats, {qkv, qw, kw},
                    [&] { return Tensors{ops::qk_norm(qkv, qw, kw, layout, 1e-6)}; }),
            measure(s.repeats, {qkv, qw, kw}, [&] {
              return Tensors{at::rms_norm(parts(0), {s.head_dim}, qw.to(dtype), 1e-6),
                             at::rms_norm(parts(1), {s.head_dim}, kw.to(dtype), 1e-6)};
            }));
  auto documents = (at::arange(s.rows + 1, at::kInt) * s.length).to(at::kInt);
  table.add(
      "attention", name,
      measure(s.repeats, {qkv}, [&] { return Tensors{ops::attention(qkv, documents, layout)}; }),
      measure(s.repeats, {qkv}, [&] {
        return Tensors{
            at::scaled_dot_product_attention(parts(0), parts(1), parts(2), {}, 0.0, true)};
      }));
}

void dense(const Shape& s, at::ScalarType dtype, const char* name, Table& table) {
  auto x = leaf({s.n(), s.width}, dtype);
  auto w = leaf({3 * s.width, s.width}, at::kFloat);
  auto copy = w.detach().to(dtype);
  table.add("linear", name,
            measure(s.repeats, {x, w}, [&] { return Tensors{ops::linear(x, w, copy)}; }),
            measure(s.repeats, {x, w}, [&] { return Tensors{at::linear(x, w.to(dtype))}; }));
  auto gate_up = leaf({s.n(), 2 * s.hidden}, dtype);
  table.add("swiglu", name,
            measure(s.repeats, {gate_up}, [&] { return Tensors{ops::swiglu(gate_up)}; }),
            measure(s.repeats, {gate_up}, [&] {
              auto halves = gate_up.chunk(2, -1);
              return Tensors{at::silu(halves[0]) * halves[1]};
            }));
  auto table_weight = leaf({s.entries, s.width}, at::kFloat);
  auto table_copy = table_weight.detach().to(dtype);
  auto ids = at::randint(s.entries, {s.n()}, at::kLong);
  table.add("embedding", name,
            measure(s.repeats, {table_weight},
                    [&] { return Tensors{ops::embedding(ids, table_weight, table_copy)}; }),
            measure(s.repeats, {table_weight},
                    [&] { return Tensors{at::embedding(table_weight.to(dtype), ids)}; }));
  table.add(
      "linear_cross_entropy", name,
      measure(s.repeats, {x, table_weight},
              [&] { return Tensors{ops::linear_cross_entropy(x, table_weight, table_copy, ids)}; }),
      measure(s.repeats, {x, table_weight}, [&] {
        auto logits = at::linear(x, table_weight.to(dtype)).to(at::kFloat);
        return Tensors{at::cross_entropy_loss(logits, ids, {}, at::Reduction::Sum)};
      }));
}

void update(const Shape& s, at::ScalarType dtype, const char* name, Table& table) {
  at::NoGradGuard no_grad;
  auto p = random({s.params}, at::kFloat), g = random({s.params}, at::kFloat);
  auto m = at::zeros_like(p), v = at::zeros_like(p), copy = p.to(dtype);
  auto lr = at::full({}, 1e-4, at::kFloat), step = at::full({}, 1.0, at::kFloat);
  ops::AdamWTensors tensors{{p}, {g}, {m}, {v}, {copy}};
  ops::AdamWScalars scalars;
  scalars.lr = lr;
  scalars.step = step;
  table.add("adamw", name,
            measure(s.repeats, {},
                    [&] {
                      ops::adamw_(tensors, scalars);
                      return Tensors{};
                    }),
            measure(s.repeats, {}, [&] {
              at::_fused_adamw_({p}, {g}, {m}, {v}, {}, {step}, 1e-4, 0.9, 0.95, 0.1, 1e-8, false,
                                false);
              copy.copy_(p);
              return Tensors{};
            }));
  auto grad = g.to(dtype);
  table.add("grad_norm", name,
            measure(s.repeats, {}, [&] { return Tensors{ops::grad_norm({grad})}; }),
            measure(s.repeats, {}, [&] { return Tensors{at::linalg_vector_norm(grad, 2)}; }));
}

}  // namespace

int main(int argc, char** argv) {
  Shape s;
  if (argc > 1 && std::strcmp(argv[1], "--smoke") == 0) {
    s.rows = 2;
    s.length = 32;
    s.entries = 64;
    s.params = 1000;
    s.repeats = 1;
  }
  Table table;
  for (auto [dtype, name] : {std::pair(at::kFloat, "fp32"), std::pair(at::kBFloat16, "bf16")}) {
    norms(s, dtype, name, table);
    dense(s, dtype, name, table);
    heads(s, dtype, name, table);
    update(s, dtype, name, table);
  }
  table.finish(s);
}
