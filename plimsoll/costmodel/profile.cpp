#include "plimsoll/costmodel/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/units.h"
#include "plimsoll/costmodel/builtin_profiles.h"

namespace plimsoll::costmodel {
namespace {

// Reads keys of one table and remembers which it was asked for, so that others can be refused.
class Keys {
 public:
  Keys(const toml::table& table, const std::string& file, std::string prefix)
      : table_(table), file_(file), prefix_(std::move(prefix)) {}

  Error bad(const toml::source_region& at, const std::string& what) const {
    return Error(fmt::format("{}:{}: {}", file_, at.begin.line, what));
  }

  const toml::node& need(const std::string& key) {
    asked_.insert(key);
    const toml::node* const node = table_.get(key);
    if (node == nullptr) throw bad(table_.source(), prefix_ + key + " is missing");
    return *node;
  }

  double number(const std::string& key, double least, bool least_excluded = false) {
    const toml::node& node = need(key);
    const auto value = node.value<double>();
    if (!node.is_number() || !value || !std::isfinite(*value))
      throw bad(node.source(), prefix_ + key + " must be a number");
    if (*value < least || (least_excluded && *value == least))
      throw bad(node.source(), fmt::format("{}{} = {} must be {} {}", prefix_, key, *value,
                                           least_excluded ? "above" : "at least", least));
    return *value;
  }

  Nanoseconds nanoseconds(const std::string& key) {
    const toml::node& node = need(key);
    const double value = number(key, 0);
    if (!node.is_integer() || value > 1e15)
      throw bad(node.source(), prefix_ + key + " must be whole nanoseconds below 1e15");
    return static_cast<Nanoseconds>(value);
  }

  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) {
    const toml::node& node = need(key);
    const auto value = node.value<std::int64_t>();
    if (!node.is_integer() || *value < least || *value > most)
      throw bad(node.source(), fmt::format("{}{} must be a whole number from {} to {}", prefix_,
                                           key, least, most));
    return *value;
  }

  std::uint64_t bytes(const std::string& key) {
    const toml::node& node = need(key);
    const auto text = node.value<std::string>();
    if (!node.is_string())
      throw bad(node.source(), prefix_ + key + " must be a text like \"80 GiB\"");
    std::int64_t value = 0;
    try {
      value = parse_bytes(*text);
    } catch (const Error& e) {
      throw bad(node.source(), prefix_ + key + ": " + e.what());
    }
    if (value <= 0) throw bad(node.source(), prefix_ + key + " must be above zero");
    return static_cast<std::uint64_t>(value);
  }

  Keys section(const std::string& key) {
    const toml::node& node = need(key);
    if (!node.is_table()) throw bad(node.source(), prefix_ + key + " must be a table");
    return {*node.as_table(), file_, prefix_ + key + "."};
  }

  void refuse_others() const {
    for (const auto& [key, node] : table_)
      if (!asked_.contains(std::string(key.str())))
        throw bad(node.source(), fmt::format("{}{} is not a key of a profile", prefix_, key.str()));
  }

  const toml::table& table() const { return table_; }

 private:
  const toml::table& table_;
  const std::string& file_;
  std::string prefix_;
  std::set<std::string> asked_;
};

}  // namespace

Profile parse_profile(const std::string& text, const std::string& file) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    throw Error(fmt::format("{}:{}: {}", file, e.source().begin.line, e.description()));
  }
  Profile profile;
  Keys top(root, file, "");

  Keys device = top.section("device");
  profile.capacity = device.bytes("capacity");
  profile.memory_bandwidth = device.number("memory_bandwidth", 0, true);
  profile.launch = device.nanoseconds("launch");
  Keys flops = device.section("flops");
  flops.number("fp32", 0, true);
  for (const auto& [key, node] : flops.table())
    profile.flops[std::string(key.str())] = flops.number(std::string(key.str()), 0, true);
  device.refuse_others();

  Keys link = top.section("link");
  profile.link_in = link.number("in", 0, true);
  profile.link_out = link.number("out", 0, true);
  profile.link_peer = link.number("peer", 0, true);
  profile.copy_latency = link.nanoseconds("latency");
  profile.pageable_factor = link.number("pageable_factor", 1);
  profile.duplex_factor = link.number("duplex_factor", 1);
  profile.copy_lanes = static_cast<int>(link.integer("copy_lanes", 1, 2));
  link.refuse_others();

  Keys host = top.section("host");
  profile.enqueue = host.nanoseconds("enqueue");
  profile.query = host.nanoseconds("query");
  profile.wait = host.nanoseconds("wait");
  profile.host_access = host.nanoseconds("access");
  profile.launch_queue = static_cast<int>(host.integer("launch_queue", 0, 1 << 20));
  host.refuse_others();

  Keys memory = top.section("memory");
  profile.allocate = memory.nanoseconds("allocate");
  profile.allocate_device = memory.nanoseconds("allocate_device");
  profile.release_device = memory.nanoseconds("release_device");
  profile.pin = memory.nanoseconds("pin");
  profile.pin_bandwidth = memory.number("pin_bandwidth", 0, true);
  memory.refuse_others();
  top.refuse_others();
  return profile;
}

std::vector<std::string> builtin_profile_names() {
  std::vector<std::string> names;
  for (const auto& profile : kBuiltinProfiles) names.emplace_back(profile.name);
  return names;
}

Profile load_profile(const std::string& name) {
  for (const auto& builtin : kBuiltinProfiles) {
    if (builtin.name != name) continue;
    Profile profile = parse_profile(std::string(builtin.toml), "profiles/" + name + ".toml");
    profile.name = name;
    return profile;
  }
  if (name.ends_with(".toml")) {
    Profile profile = parse_profile(read_file(name), name);
    profile.name = name;
    return profile;
  }
  throw Error(fmt::format("no device profile is named {}", name),
              fmt::format("there are {}; or give the path of a .toml file",
                          fmt::join(builtin_profile_names(), ", ")));
}

double Profile::peak_flops(std::string_view dtype) const {
  auto found = flops.find(dtype);
  if (found == flops.end()) found = flops.find("fp32");
  if (found == flops.end()) throw Error(fmt::format("profile {} has no flops for fp32", name));
  return found->second;
}

Nanoseconds duration(double amount, double rate) {
  return amount <= 0 ? 0 : std::llround(amount / rate * 1e9);
}

Nanoseconds kernel_cost(const Profile& profile, double flops, std::string_view dtype,
                        double bytes) {
  return profile.launch + std::max(duration(flops, profile.peak_flops(dtype)),
                                   duration(bytes, profile.memory_bandwidth));
}

}  // namespace plimsoll::costmodel
