#include "plimsoll/data/stream_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"

namespace plimsoll::data {
namespace {

using nlohmann::json;

constexpr std::int64_t kVersion = 1;

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  throw Error(fmt::format("data position: \"{}\" {}", name, why));
}

const json& member(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) refuse(name, "is missing");
  return *found;
}

std::int64_t as_count(const json& value, const char* name) {
  // nlohmann keeps what was written without a sign as unsigned; both kinds must fit an int64.
  if (!value.is_number_integer()) refuse(name, "is not a whole number");
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
    refuse(name, "is too large");
  }
  const auto number = value.get<std::int64_t>();
  if (number < 0) refuse(name, fmt::format("is {}, below 0", number));
  return number;
}

std::int64_t get_count(const json& object, const char* name) {
  return as_count(member(object, name), name);
}

std::string get_string(const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_string()) refuse(name, "is not a string");
  return value.get<std::string>();
}

}  // namespace

json to_json(const StreamState& state) {
  return {{"version", state.version},
          {"data", state.data},
          {"packing", state.packing},
          {"shuffle", state.shuffle},
          {"seed", state.seed},
          {"rank", state.rank},
          {"world", state.world},
          {"tokens_per_batch", state.tokens_per_batch},
          {"max_context", state.max_context},
          {"epoch", state.epoch},
          {"index", state.index},
          {"offset", state.offset},
          {"bins", state.bins},
          {"rows", state.rows},
          {"dropped_long", state.dropped_long}};
}

StreamState stream_state_from_json(const json& object) {
  if (!object.is_object()) throw Error("data position: not a JSON object");
  StreamState state;
  state.version = get_count(object, "version");
  if (state.version != kVersion) {
    refuse("version", fmt::format("is {}, this program reads {}", state.version, kVersion));
  }
  state.data = get_string(object, "data");
  state.packing = get_string(object, "packing");
  const json& shuffle = member(object, "shuffle");
  if (!shuffle.is_boolean()) refuse("shuffle", "is neither true nor false");
  state.shuffle = shuffle.get<bool>();
  const json& seed = member(object, "seed");
  if (!seed.is_number_integer() || (!seed.is_number_unsigned() && seed.get<std::int64_t>() < 0)) {
    refuse("seed", "is not a whole number from 0");
  }
  state.seed = seed.get<std::uint64_t>();
  state.rank = get_count(object, "rank");
  state.world = get_count(object, "world");
  state.tokens_per_batch = get_count(object, "tokens_per_batch");
  state.max_context = get_count(object, "max_context");
  state.epoch = get_count(object, "epoch");
  state.index = get_count(object, "index");
  state.offset = get_count(object, "offset");
  const json& bins = member(object, "bins");
  if (!bins.is_array()) refuse("bins", "is not a list");
  for (const json& bin : bins) {
    if (!bin.is_array()) refuse("bins", "is not a list of lists");
    std::vector<std::int64_t>& documents = state.bins.emplace_back();
    for (const json& document : bin) documents.push_back(as_count(document, "bins"));
  }
  state.rows = get_count(object, "rows");
  state.dropped_long = get_count(object, "dropped_long");
  return state;
}

}  // namespace plimsoll::data
