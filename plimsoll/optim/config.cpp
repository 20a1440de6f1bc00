#include "plimsoll/optim/config.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/base/regex.h"
#include "plimsoll/config/problems.h"

namespace plimsoll::optim {
namespace {

// The update runs in fp32: what it would round to infinity or to zero is refused.
constexpr double kMaxFloat = 1e38, kMinFloat = 1e-30;

Hyper hyper_of(const OptimConfig& c, const GroupConfig* g) {
  Hyper h{c.lr, c.beta1, c.beta2, c.eps, c.weight_decay};
  if (!g) return h;
  return {g->lr.value_or(h.lr), g->beta1.value_or(h.beta1), g->beta2.value_or(h.beta2),
          g->eps.value_or(h.eps), g->weight_decay.value_or(h.weight_decay)};
}

// What a group may set for itself and the optimizer sets for the rest, within the same bounds.
template <class Config>
void describe_hyper(config::Fields& f, Config& c, std::string_view lr, std::string_view decay) {
  f.field("lr", c.lr, lr).at_least(0).at_most(kMaxFloat);
  f.field("beta1", c.beta1, "decay of the first moment").at_least(0).below(1);
  f.field("beta2", c.beta2, "decay of the second moment").at_least(0).below(1);
  f.field("eps", c.eps, "added to the root of the second moment")
      .at_least(kMinFloat)
      .at_most(kMaxFloat);
  f.field("weight_decay", c.weight_decay, decay).at_least(0).at_most(kMaxFloat);
}

}  // namespace

void GroupConfig::describe(config::Fields& f) {
  f.field("pattern", pattern, "regular expression searched in parameter names").required();
  describe_hyper(f, *this, "learning rate of the group", "decoupled weight decay");
}

void GroupConfig::validate(config::Problems& p) const {
  try {
    Regex regex(pattern);
  } catch (const Error& e) {
    p.add("pattern", e.what());
  }
}

void OptimConfig::describe(config::Fields& f) {
  describe_hyper(f, *this, "learning rate at the top of the schedule",
                 "decoupled weight decay, on every parameter");
  f.field("max_norm", max_norm, "gradients are clipped to this total norm; 0: not clipped")
      .at_least(0)
      .at_most(kMaxFloat);
  f.choice("moments", moments, {"fp32", "bf16"}, "dtype of the optimizer's two moments");
  f.section("schedule", schedule, "learning rate over the run");
  f.tables("groups", groups, "groups of parameters with values of their own; first match wins");
}

std::vector<Group> assign_groups(const OptimConfig& config, const std::vector<std::string>& names) {
  std::vector<Group> groups;
  std::vector<bool> claimed(names.size(), false);
  for (const GroupConfig& g : config.groups) {
    Regex regex(g.pattern);
    Group group{g.pattern, hyper_of(config, &g), {}};
    bool matched = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!regex.found_in(names[i])) continue;
      matched = true;
      if (claimed[i]) continue;
      claimed[i] = true;
      group.members.push_back(i);
    }
    if (!matched) {
      throw UsageError(fmt::format("optim.groups: pattern \"{}\" matches no parameter", g.pattern),
                       names.empty() ? "" : fmt::format("names look like \"{}\"", names.back()));
    }
    if (!group.members.empty()) groups.push_back(std::move(group));
  }
  Group rest{"", hyper_of(config, nullptr), {}};
  for (size_t i = 0; i < names.size(); ++i) {
    if (!claimed[i]) rest.members.push_back(i);
  }
  if (!rest.members.empty()) groups.push_back(std::move(rest));
  return groups;
}

}  // namespace plimsoll::optim
