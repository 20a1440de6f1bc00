#include "plimsoll/data/stream_state.h"

#include <nlohmann/json.hpp>

#include "tests/expect_error.h"

namespace plimsoll::data {
namespace {

using nlohmann::json;
using ::plimsoll::testing::error_of;
using ::testing::HasSubstr;

StreamState example() {
  return {.data = "abc",
          .packing = "first_fit",
          .shuffle = true,
          .seed = UINT64_MAX,
          .rank = 1,
          .world = 4,
          .tokens_per_batch = 64,
          .max_context = 16,
          .epoch = 3,
          .index = 5,
          .offset = 0,
          .bins = {{1, 2}, {9}},
          .rows = 77,
          .dropped_long = 2};
}

TEST(StreamState, SurvivesJson) {
  const StreamState state = example();
  EXPECT_EQ(stream_state_from_json(json::parse(to_json(state).dump())), state);
  EXPECT_EQ(stream_state_from_json(to_json(StreamState{})), StreamState{});
}

TEST(StreamState, EveryMemberIsNeededAndChecked) {
  const json whole = to_json(example());
  for (const auto& [name, value] : whole.items()) {
    json lacking = whole;
    lacking.erase(name);
    EXPECT_THAT(error_of([&] { stream_state_from_json(lacking); }),
                HasSubstr("\"" + name + "\" is missing"));
    for (const json& wrong : {json(nullptr), json(1.5), json::object(), json(json::array({"x"}))}) {
      json changed = whole;
      changed[name] = wrong;
      EXPECT_THAT(error_of([&] { stream_state_from_json(changed); }), HasSubstr("\"" + name + "\""))
          << wrong;
    }
  }
  json changed = whole;
  changed["index"] = -1;
  EXPECT_THAT(error_of([&] { stream_state_from_json(changed); }), HasSubstr("\"index\" is -1"));
  changed["index"] = UINT64_MAX;
  EXPECT_THAT(error_of([&] { stream_state_from_json(changed); }), HasSubstr("too large"));
  changed = whole;
  changed["version"] = 2;
  EXPECT_THAT(error_of([&] { stream_state_from_json(changed); }),
              HasSubstr("\"version\" is 2, this program reads 1"));
  EXPECT_THAT(error_of([] { stream_state_from_json(json::array()); }),
              HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace plimsoll::data
