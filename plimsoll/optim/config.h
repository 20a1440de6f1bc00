#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/config/fields.h"
#include "plimsoll/optim/schedule.h"

namespace plimsoll::optim {

/// Parameters whose name matches `pattern` and what they use instead of the section's own values.
struct GroupConfig {
  std::string pattern;  ///< regular expression, searched in the parameter's name
  std::optional<double> lr, beta1, beta2, eps, weight_decay;

  void describe(config::Fields& f);
  void validate(config::Problems& p) const;
};

struct OptimConfig {
  double lr = 8e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;     ///< on every parameter unless a group says otherwise
  double max_norm = 1.0;         ///< gradients are clipped to this total L2 norm; 0: not clipped
  std::string moments = "fp32";  ///< fp32 | bf16
  ScheduleConfig schedule;
  std::vector<GroupConfig> groups;  ///< first match wins; the rest use the values above

  void describe(config::Fields& f);
};

/// The values that one group of parameters is updated with.
struct Hyper {
  double lr, beta1, beta2, eps, weight_decay;
};

struct Group {
  std::string pattern;  ///< empty for the parameters that no pattern claims
  Hyper hyper;
  std::vector<size_t> members;  ///< indices into the names given
};

/// Assigns each name to exactly one group, in the order of the patterns. Throws UsageError for a
/// pattern that matches nothing, naming it and a parameter it might have meant. Pure.
std::vector<Group> assign_groups(const OptimConfig& config, const std::vector<std::string>& names);

}  // namespace plimsoll::optim
