#include "sim/driver/race.h"

#include <fmt/format.h>

namespace plimsoll::sim {

RaceLog::Key RaceLog::key(const Race& race) {
  return {race.first.label,   race.second.label, race.first.stream,
          race.second.stream, race.first.kind,   race.second.kind,
          race.first.write,   race.second.write, race.use_after_free};
}

void RaceLog::add(const Race& race, Label hidden_by) {
  ++races_;
  if (observer_) observer_(race);
  const auto [place, is_new] = index_.emplace(key(race), reports_.size());
  if (is_new) reports_.push_back({.race = race, .hidden_by = hidden_by});
  ++reports_[place->second].count;
}

void RaceLog::clear() {
  index_.clear();
  reports_.clear();
  races_ = 0;
}

std::string describe(const RaceReport& report, const std::function<std::string(Label)>& label,
                     const std::function<std::string(std::uint32_t)>& stream) {
  const Race& race = report.race;
  const auto name = [&](const Operation& operation) {
    std::string what = operation.write ? "write" : "read";
    if (operation.kind == OperationKind::kAllocation) what = "allocation";
    if (operation.kind == OperationKind::kFree) what = "free";
    if (const std::string text = label(operation.label); !text.empty())
      what += " by '" + text + "'";
    what += fmt::format(" (#{})", operation.number);
    return what + (operation.stream == Operation::kHostStream
                       ? " on the host"
                       : " on stream " + stream(operation.stream));
  };
  const std::string bytes =
      race.allocation != 0 ? fmt::format("bytes [{}, {}) of allocation {}", race.offset,
                                         race.offset + (race.end - race.begin), race.allocation)
                           : fmt::format("{} bytes of host memory", race.end - race.begin);
  std::string text;
  if (race.first.kind == OperationKind::kNothing) {
    text = fmt::format("use of memory outside any allocation: {}, {} bytes", name(race.second),
                       race.end - race.begin);
  } else if (race.use_after_free) {
    text =
        fmt::format("use after free: {}, then {}, {}", name(race.first), name(race.second), bytes);
  } else {
    const bool host = race.second.stream == Operation::kHostStream;
    const std::string later = host ? "the host" : "stream " + stream(race.second.stream);
    const std::string earlier = "stream " + stream(race.first.stream);
    text = fmt::format(
        "race: {}, then {}, {}: {} is known there up to step {}, needed {}: {} must wait for an "
        "event recorded on {} after #{}",
        name(race.first), name(race.second), bytes, earlier, race.known, race.needed, later,
        earlier, race.first.number);
  }
  if (report.count > 1) text += fmt::format(" ({} times)", report.count);
  if (report.only_if) {
    const std::string wait = label(report.hidden_by);
    text = fmt::format("hidden by an incidental wait{}: {}", wait.empty() ? "" : " '" + wait + "'",
                       text);
  }
  return text;
}

}  // namespace plimsoll::sim
