#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace plimsoll::data {

/// The position of a BatchStream: a few integers, saved in checkpoints.
struct StreamState {
  std::int64_t version = 1;
  // What the position belongs to; must be equal on restore.
  std::string data;  ///< DocumentSet::fingerprint()
  std::string packing;
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::int64_t rank = 0;
  std::int64_t world = 1;
  std::int64_t tokens_per_batch = 0;
  std::int64_t max_context = 0;
  // The position.
  std::int64_t epoch = 0;
  std::int64_t index = 0;   ///< next document in this rank's slice of the epoch
  std::int64_t offset = 0;  ///< inputs of that document already given out (concat)
  std::vector<std::vector<std::int64_t>> bins;  ///< open rows as document numbers (first fit)
  // Counters.
  std::int64_t rows = 0;
  std::int64_t dropped_long = 0;  ///< documents longer than the context (first fit)

  bool operator==(const StreamState&) const = default;
};

nlohmann::json to_json(const StreamState& state);
/// Error names the member that is missing, of the wrong kind or out of range.
StreamState stream_state_from_json(const nlohmann::json& json);

}  // namespace plimsoll::data
