#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/model/decoder.h"
#include "plimsoll/optim/config.h"

namespace plimsoll::optim {

/// What the gradients of one step came to. Tensors on the device: nothing is read by the host.
struct Clipped {
  at::Tensor norm;       ///< fp32 scalar, total L2 norm before clipping
  at::Tensor scale;      ///< fp32 scalar, min(1, max_norm / (norm + 1e-6)); 1 when not clipping
  at::Tensor found_inf;  ///< fp32 scalar, 1 when the norm or `loss` is not finite, else 0
};

/// AdamW over the parameters of one model: moments, one step counter, groups. The update also
/// refreshes the parameters' compute copies. Not thread-safe.
class AdamW {
 public:
  /// `parameters` outlive this object. Moments are allocated at once, beside the parameters, in
  /// fp32 or bf16. Throws UsageError for a group that matches no parameter.
  AdamW(std::vector<model::Parameter*> parameters, const OptimConfig& config);

  /// Norm, clip coefficient and finite flag of the gradients that are there. `loss` is an fp32
  /// scalar. Throws Error naming a parameter without a gradient.
  Clipped clip(const at::Tensor& loss) const;

  /// One update at base rates times `lr_factor`. Where found_inf is 1 nothing changes, the step
  /// counter included. Gradients are left as they are.
  void update(double lr_factor, const Clipped& clipped);

  /// Drops all gradients; the next backward creates them anew.
  void zero_grad();

  /// Everything a checkpoint needs, under stable names: "step", "exp_avg.NAME", "exp_avg_sq.NAME".
  /// The tensors are the live ones.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

  /// Base learning rate of each group, for reports; one entry a group.
  std::vector<double> learning_rates() const;

 private:
  std::vector<model::Parameter*> parameters_;
  double max_norm_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> lr_;  // one fp32 scalar a group, filled each step
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;
  at::Tensor step_;  // fp32 scalar: updates that happened
};

}  // namespace plimsoll::optim
