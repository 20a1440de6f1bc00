#include "tests/ops/testing.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace plimsoll::ops::testing {
namespace {

at::Tensor weighted_sum(const std::vector<at::Tensor>& outputs) {
  at::Tensor total;
  uint64_t seed = 977;
  for (const auto& o : outputs) {
    // Numbers that bf16 holds, so that the incoming gradient is the same in every dtype.
    auto weights = random(o.sizes(), at::kBFloat16, seed++).to(at::kDouble);
    auto part = at::sum(o.to(at::kDouble) * weights);
    total = total.defined() ? total + part : part;
  }
  return total;
}

}  // namespace

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype, uint64_t seed) {
  auto t = at::empty(sizes, at::kDouble);
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal;
  double* p = t.mutable_data_ptr<double>();
  for (int64_t i = 0; i < t.numel(); ++i) p[i] = normal(bits);
  return t.to(dtype);
}

at::Tensor random_ids(int64_t n, int64_t limit, uint64_t seed) {
  auto t = at::empty({n}, at::kLong);
  std::mt19937_64 bits(seed);
  for (int64_t i = 0; i < n; ++i) {
    t.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(bits() % static_cast<uint64_t>(limit));
  }
  return t;
}

at::Tensor offsets(const std::vector<int64_t>& lengths) {
  auto t = at::zeros({static_cast<int64_t>(lengths.size()) + 1}, at::kInt);
  int32_t* p = t.mutable_data_ptr<int32_t>();
  for (size_t i = 0; i < lengths.size(); ++i) p[i + 1] = p[i] + static_cast<int32_t>(lengths[i]);
  return t;
}

at::Tensor positions_of(const std::vector<int64_t>& lengths) {
  int64_t n = 0;
  for (int64_t l : lengths) n += l;
  auto t = at::empty({n}, at::kInt);
  int32_t* p = t.mutable_data_ptr<int32_t>();
  for (int64_t l : lengths) {
    for (int64_t i = 0; i < l; ++i) *p++ = static_cast<int32_t>(i);
  }
  return t;
}

std::vector<at::Tensor> gradients(const Function& f, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const auto& t : inputs) leaves.push_back(t.detach().requires_grad_(true));
  at::AutoGradMode grad(true);
  return torch::autograd::grad({weighted_sum(f(leaves))}, leaves, {}, std::nullopt, false,
                               /*allow_unused=*/true);
}

double gradcheck(const Function& f, const std::vector<at::Tensor>& inputs) {
  const auto expected = gradients(f, inputs);
  at::NoGradGuard no_grad;
  constexpr double kStep = 1e-6;
  double worst = 0;
  std::vector<at::Tensor> moved;
  for (const auto& t : inputs) moved.push_back(t.detach().clone(at::MemoryFormat::Contiguous));
  for (size_t i = 0; i < moved.size(); ++i) {
    auto gradient = expected[i].contiguous();
    for (int64_t j = 0; j < moved[i].numel(); ++j) {
      double& x = moved[i].mutable_data_ptr<double>()[j];
      const double old = x;
      x = old + kStep;
      const double up = weighted_sum(f(moved)).item<double>();
      x = old - kStep;
      const double down = weighted_sum(f(moved)).item<double>();
      x = old;
      const double g = gradient.const_data_ptr<double>()[j];
      const double error = std::abs((up - down) / (2 * kStep) - g) / (1 + std::abs(g));
      worst = std::isfinite(error) ? std::max(worst, error) : error;
      if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
    }
  }
  return worst;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  auto x = a.detach().to(at::kDouble).contiguous(), y = b.detach().to(at::kDouble).contiguous();
  double difference = 0, size = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double p = x.const_data_ptr<double>()[i], q = y.const_data_ptr<double>()[i];
    if (!(std::abs(p - q) < std::numeric_limits<double>::infinity())) {
      return std::numeric_limits<double>::infinity();
    }
    difference = std::max(difference, std::abs(p - q));
    size = std::max(size, std::abs(q));
  }
  return size > 0 ? difference / size : difference;
}

bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  auto x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

namespace {

std::vector<at::Tensor>* saved_now = nullptr;

struct Watch : torch::autograd::SavedVariableHooks {
  void call_pack_hook(const at::Tensor& t) override {
    kept = t.detach();
    if (saved_now != nullptr) saved_now->push_back(kept);
  }
  at::Tensor call_unpack_hook() override { return kept; }
  at::Tensor kept;
};

struct WatchingEngine : torch::autograd::Engine {
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (saved_now == nullptr) return nullptr;
    return std::make_unique<Watch>();
  }
};

}  // namespace

std::vector<at::Tensor> saved_by(const std::function<at::Tensor()>& f) {
  static auto* engine = [] {
    static auto* e = new WatchingEngine();  // never freed: threads of it may outlive the statics
    torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return *e; });
    return e;
  }();
  (void)engine;
  std::vector<at::Tensor> saved;
  saved_now = &saved;
  auto out = f();
  saved_now = nullptr;
  return saved;
}

}  // namespace plimsoll::ops::testing
