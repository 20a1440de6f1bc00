#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::sim {

/// How far each stream is known: a step count by stream. Missing ones are 0.
class VectorClock {
 public:
  using Step = std::uint32_t;

  Step get(std::uint32_t stream) const noexcept {
    return stream < steps_.size() ? steps_[stream] : 0;
  }
  Step advance(std::uint32_t stream) {
    if (stream >= steps_.size()) steps_.resize(stream + 1);
    return ++steps_[stream];
  }
  /// Takes the later of both for each stream; true when that changed anything.
  bool join(const VectorClock& other) {
    bool changed = false;
    if (other.steps_.size() > steps_.size()) steps_.resize(other.steps_.size());
    for (std::size_t i = 0; i < other.steps_.size(); ++i) {
      if (other.steps_[i] <= steps_[i]) continue;
      steps_[i] = other.steps_[i];
      changed = true;
    }
    return changed;
  }

 private:
  std::vector<Step> steps_;
};

}  // namespace plimsoll::sim
