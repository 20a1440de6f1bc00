#include <ATen/ops/empty.h>

#include <cmath>
#include <vector>

#include "plimsoll/ops/cpu/tensors.h"
#include "plimsoll/ops/detail.h"
#include "plimsoll/ops/fast.h"
#include "plimsoll/ops/plain.h"

namespace plimsoll::ops {
namespace {

using namespace cpu;

/// A stretch of one tensor of a list; lists are worked through in these, whatever the tensors'
/// sizes.
struct Piece {
  size_t tensor;
  int64_t from;
  int64_t count;
};

std::vector<Piece> pieces_of(at::TensorList tensors, int64_t most) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t n = tensors[i].numel();
    for (int64_t from = 0; from < n; from += most) {
      pieces.push_back({i, from, std::min(most, n - from)});
    }
  }
  return pieces;
}

/// A stretch of a tensor as fp32 numbers: in place, or through a buffer for bf16.
class Stretch {
 public:
  Stretch(const at::Tensor& t, int64_t from, int64_t n, float* buffer) : n_(n) {
    if (t.scalar_type() == at::kFloat) {
      numbers_ = mutable_data_of<float>(t) + from;
    } else {
      narrow_ = mutable_data_of<Bf16>(t) + from;
      numbers_ = buffer;
      widen(narrow_, buffer, n);
    }
  }
  float* numbers() const { return numbers_; }
  void write_back() const {
    if (narrow_ != nullptr) narrow(numbers_, narrow_, n_);
  }

 private:
  float* numbers_;
  Bf16* narrow_ = nullptr;
  int64_t n_;
};

bool any_double(at::TensorList list) {
  for (const auto& t : list) {
    if (t.scalar_type() == at::kDouble) return true;
  }
  return false;
}

}  // namespace

void fast::adamw_(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                  at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
                  const at::Tensor& step, double beta1, double beta2, double eps,
                  double weight_decay, const OptionalTensor& grad_scale,
                  const OptionalTensor& found_inf) {
  if (any_double(params) || any_double(grads) || any_double(exp_avg) || any_double(exp_avg_sq) ||
      any_double(compute)) {
    return plain::adamw_(params, grads, exp_avg, exp_avg_sq, compute, lr, step, beta1, beta2, eps,
                         weight_decay, grad_scale, found_inf);
  }
  if (found_inf && *found_inf->const_data_ptr<float>() != 0) return;
  const double rate = *lr.const_data_ptr<float>(), count = *step.const_data_ptr<float>();
  AdamWNumbers c{};
  c.grad_scale = grad_scale ? *grad_scale->const_data_ptr<float>() : 1.0f;
  c.beta1 = static_cast<float>(beta1);
  c.beta2 = static_cast<float>(beta2);
  c.rest1 = static_cast<float>(1 - beta1);
  c.rest2 = static_cast<float>(1 - beta2);
  c.eps = static_cast<float>(eps);
  c.keep = static_cast<float>(1 - rate * weight_decay);
  c.step_size = static_cast<float>(rate / (1 - std::pow(beta1, count)));
  c.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count)));
  constexpr int64_t kPiece = 16384, kPart = 1024;
  const auto pieces = pieces_of(params, kPiece);
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t b, int64_t e) {
    alignas(64) float buffers[3][kPart];
    for (int64_t i = b; i < e; ++i) {
      const auto& piece = pieces[static_cast<size_t>(i)];
      const size_t k = piece.tensor;
      const auto copy = compute.empty() ? at::kFloat : compute[k].scalar_type();
      float* p = mutable_data_of<float>(params[k]);
      const int64_t last = piece.from + piece.count;
      for (int64_t at = piece.from; at < last; at += kPart) {
        const int64_t n = std::min(kPart, last - at);
        const Stretch g(grads[k], at, n, buffers[0]);
        const Stretch m(exp_avg[k], at, n, buffers[1]);
        const Stretch v(exp_avg_sq[k], at, n, buffers[2]);
        adamw(c, p + at, g.numbers(), m.numbers(), v.numbers(), n);
        m.write_back();
        v.write_back();
        if (compute.empty()) continue;
        if (copy == at::kBFloat16) {
          narrow(p + at, mutable_data_of<Bf16>(compute[k]) + at, n);
        } else {
          std::copy_n(p + at, n, mutable_data_of<float>(compute[k]) + at);
        }
      }
    }
  });
}

at::Tensor fast::grad_norm(at::TensorList grads) {
  std::vector<at::Tensor> dense;
  dense.reserve(grads.size());
  for (const auto& g : grads) dense.push_back(g.contiguous());
  const auto pieces = pieces_of(dense, 65536);
  std::vector<double> sums(pieces.size());
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const auto& piece = pieces[static_cast<size_t>(i)];
      const auto& t = dense[piece.tensor];
      with_type(t.scalar_type(), [&](auto kind) {
        sums[static_cast<size_t>(i)] =
            sum_of_squares(data_of<decltype(kind)>(t) + piece.from, piece.count);
      });
    }
  });
  double sum = 0;
  for (double s : sums) sum += s;
  auto out = at::empty({}, at::kFloat);
  *out.mutable_data_ptr<float>() = static_cast<float>(std::sqrt(sum));
  return out;
}

}  // namespace plimsoll::ops
