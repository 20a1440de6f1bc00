// How a DoctorReport is shown: for people and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/device/doctor.h"

namespace plimsoll::device {
namespace {

const char* word(CheckResult result) {
  switch (result) {
    case CheckResult::kPass:
      return "pass";
    case CheckResult::kFail:
      return "fail";
    case CheckResult::kAbsent:
      return "absent";
  }
  return "absent";
}

const char* word(const std::optional<bool>& present) {
  return !present ? "unknown" : *present ? "yes" : "no";
}

std::string gib(const std::optional<int64_t>& bytes) {
  return bytes ? fmt::format("{:.1f} GiB", static_cast<double>(*bytes) / (1 << 30)) : "n/a";
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string to_text(const DoctorReport& report) {
  std::string out;
  const auto line = [&](const std::string& name, const std::string& value) {
    out += fmt::format("  {:<22} {}\n", name, value);
  };
  out += fmt::format("device: {} ({})\n", report.device.str(), report.why);
  for (const auto& device : report.devices) {
    std::string about =
        fmt::format("{}, {}", device.name.value_or("name n/a"), gib(device.capacity));
    if (!device.device.is_cpu())
      about += device.peak ? fmt::format(", {:.0f} TFLOP/s", *device.peak / 1e12) : ", peak n/a";
    line(device.device.str(), about);
  }
  out += "\nwhat it can do\n";
  for (const auto& [name, capability] : report.capabilities.rows())
    line(name, fmt::format("{:<8} {}", word(capability.present), capability.how));
  out += "\nchecks\n";
  for (const auto& check : report.checks) {
    line(check.name, fmt::format("{:<8} {}", word(check.result), check.how));
    if (check.result != CheckResult::kPass)
      line("", fmt::format("{:<8} affects: {}", "", check.affects));
  }
  out += "\nmachine\n";
  line("threads", fmt::format("{} for an operator", report.threads));
  line("instructions", report.instructions);
  line("memory",
       fmt::format("{} in all, {} free, limit {}", gib(report.memory.total),
                   gib(report.memory.available),
                   report.memory.container_limit ? gib(report.memory.container_limit) : "none"));
  if (report.topology) {
    const auto& t = *report.topology;
    line("processors",
         fmt::format("{} in {} cores, {} packages", t.processors, t.cores, t.packages));
    for (const auto& node : t.nodes)
      line(fmt::format("NUMA node {}", node.index),
           fmt::format("processors {}, {}", node.cpus, node.bytes > 0 ? gib(node.bytes) : "n/a"));
  } else {
    line("processors", "n/a");
  }
  out += "\nmeasured\n";
  for (const auto& [name, value] : report.measured)
    line(name, value ? fmt::format("{:.1f}", *value) : "n/a");
  out += "\nversions\n";
  for (const auto& [name, value] : report.versions) line(name, value);
  return out;
}

std::string to_json(const DoctorReport& report) {
  using Json = nlohmann::ordered_json;
  Json out;
  out["device"] = report.device.str();
  out["why"] = report.why;
  out["devices"] = Json::array();
  for (const auto& device : report.devices)
    out["devices"].push_back({{"device", device.device.str()},
                              {"name", or_null(device.name)},
                              {"capacity", or_null(device.capacity)},
                              {"peak_flops", or_null(device.peak)}});
  out["capabilities"] = Json::object();
  for (const auto& [name, capability] : report.capabilities.rows())
    out["capabilities"][name] = {{"present", or_null(capability.present)}, {"how", capability.how}};
  out["checks"] = Json::array();
  for (const auto& check : report.checks)
    out["checks"].push_back({{"name", check.name},
                             {"area", check.area},
                             {"result", word(check.result)},
                             {"how", check.how},
                             {"affects", check.affects}});
  out["measured"] = Json::object();
  for (const auto& [name, value] : report.measured) out["measured"][name] = or_null(value);
  out["versions"] = Json::object();
  for (const auto& [name, value] : report.versions) out["versions"][name] = value;
  out["threads"] = report.threads;
  out["instructions"] = report.instructions;
  out["memory"] = {{"total", or_null(report.memory.total)},
                   {"available", or_null(report.memory.available)},
                   {"container_limit", or_null(report.memory.container_limit)},
                   {"resident", or_null(report.memory.resident)}};
  out["numa_nodes"] = Json::array();
  if (report.topology)
    for (const auto& node : report.topology->nodes)
      out["numa_nodes"].push_back(
          {{"index", node.index}, {"cpus", node.cpus}, {"bytes", node.bytes}});
  // A driver's message may hold anything; the line must be JSON all the same.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plimsoll::device
