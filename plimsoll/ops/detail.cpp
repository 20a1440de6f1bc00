#include "plimsoll/ops/detail.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <memory>

namespace plimsoll::ops {

std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("{}[{}]", c10::toString(t.scalar_type()),
                     fmt::join(t.sizes().begin(), t.sizes().end(), ", "));
}

void check_float(const char* op, const char* name, const at::Tensor& t) {
  const auto dtype = t.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kDouble) {
    fail(op, "{} is {}: must be fp32, bf16 or fp64", name, describe(t));
  }
}

void check_ids(const char* op, const char* name, const at::Tensor& t, int64_t n) {
  if ((t.scalar_type() != at::kInt && t.scalar_type() != at::kLong) || t.dim() != 1 ||
      t.size(0) != n) {
    fail(op, "{} is {}: must be int32 or int64 [{}]", name, describe(t), n);
  }
}

void check_same(const char* op, const char* name, const at::Tensor& t, const at::Tensor& like) {
  if (t.scalar_type() != like.scalar_type() || t.sizes() != like.sizes()) {
    fail(op, "{} is {}: must be {}", name, describe(t), describe(like));
  }
}

bool needs_grad(const at::Tensor& t) {
  return at::GradMode::is_enabled() && t.requires_grad();
}

at::ScalarType grad_dtype_of(const at::Tensor& t) {
  return t.grad_dtype().value_or(t.scalar_type());
}

std::vector<at::Tensor> once_differentiable(const char* op, std::vector<at::Tensor> gradients) {
  if (!at::GradMode::is_enabled()) return gradients;
  auto error = c10::make_intrusive<torch::autograd::DelayedError>(
      fmt::format("plimsoll::{}: its gradient cannot be differentiated again; take the first "
                  "gradient without create_graph",
                  op),
      static_cast<int64_t>(gradients.size()));
  for (auto& g : gradients) {
    if (g.defined()) g = g.detach().requires_grad_(true);
  }
  return error->apply(std::move(gradients));
}

}  // namespace plimsoll::ops
