#include "plimsoll/device/choose.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <exception>

#include "plimsoll/base/error.h"
#include "plimsoll/device/plugin.h"

namespace plimsoll::device {
namespace {

std::optional<int> to_int(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string type_name(c10::DeviceType type) {
  return c10::DeviceTypeName(type, /*lower_case=*/true);
}

/// The type of a name that torch can read, whether or not a device of it is there.
std::optional<c10::DeviceType> torch_type(const std::string& name) {
  try {
    return c10::Device(name).type();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string list_known() {
  return fmt::format("known here: auto, {}", fmt::join(known_devices(), ", "));
}

int pick_index(const DeviceSpec& spec, int count, const std::string& name, std::string& why) {
  if (spec.index) {
    if (*spec.index >= count)
      throw Error(
          fmt::format("device {}:{} does not exist: {} device{} of this kind (counted from 0)",
                      name, *spec.index, count, count == 1 ? "" : "s"),
          "the index counts visible devices, whatever their physical numbers are");
    return *spec.index;
  }
  if (!has_local_rank()) return 0;
  const int index = local_device_index(local_rank(), count, name);
  why += fmt::format(", index from LOCAL_RANK={}", local_rank());
  return index;
}

Choice choose_auto(const DeviceSpec& spec) {
  const c10::Device cpu(c10::DeviceType::CPU);
  std::optional<c10::DeviceType> type;
  try {
    type = at::accelerator::getAccelerator(false);
  } catch (const std::exception& e) {
    return {cpu, "torch cannot say which accelerator there is: " + first_line(e.what())};
  }
  if (!type) return {cpu, "auto: this torch has no accelerator"};
  const std::string name = type_name(*type);
  const int count = device_count(*type);
  if (count == 0)
    return {cpu, fmt::format("auto: torch supports {}, but no such device is here", name)};
  std::string why = fmt::format("auto: {} available", count);
  const int index = pick_index(spec, count, name, why);
  return {c10::Device(*type, static_cast<c10::DeviceIndex>(index)), why};
}

}  // namespace

DeviceSpec parse_device_spec(const std::string& text) {
  const auto bad = [&](const std::string& what) {
    return UsageError(fmt::format("device \"{}\": {}", text, what),
                      "write auto, cpu or NAME[:INDEX][,option=value...]");
  };
  DeviceSpec spec;
  const size_t comma = text.find(',');
  std::string head = text.substr(0, comma);
  const size_t colon = head.find(':');
  spec.name = head.substr(0, colon);
  const auto word = [](const std::string& s) {
    return !s.empty() && std::all_of(s.begin(), s.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-' || c == '.';
    });
  };
  if (spec.name.empty()) throw bad("no name");
  if (!word(spec.name)) throw bad("a name has letters, digits, '_', '-' and '.' only");
  if (colon != std::string::npos) {
    const std::string after = head.substr(colon + 1);
    const bool digits =
        !after.empty() &&
        std::all_of(after.begin(), after.end(), [](unsigned char c) { return std::isdigit(c); });
    if (digits) {
      spec.index = to_int(after);
      // c10::DeviceIndex is eight bits.
      if (!spec.index || *spec.index > 127) throw bad("the index is too large");
    } else if (word(after)) {
      spec.options.emplace_back("profile", after);
    } else {
      throw bad(after.empty() ? "nothing after the colon"
                              : "after the colon an index or a word is expected");
    }
  }
  for (size_t at = comma; at != std::string::npos;) {
    const size_t next = text.find(',', at + 1);
    const std::string option =
        text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0)
      throw bad(fmt::format("option \"{}\" is not option=value", option));
    const std::string key = option.substr(0, equals);
    for (const auto& [known, value] : spec.options)
      if (known == key) throw bad(fmt::format("option \"{}\" is given twice", key));
    spec.options.emplace_back(key, option.substr(equals + 1));
    at = next;
  }
  if ((spec.name == "auto" || spec.name == "cpu") && !spec.options.empty())
    throw bad(fmt::format("{} takes no options", spec.name));
  if (spec.name == "auto" && spec.index) throw bad("auto takes no index");
  if (spec.name == "cpu" && spec.index.value_or(0) != 0) throw bad("there is one cpu, index 0");
  return spec;
}

std::string Choice::line() const {
  return fmt::format("device: {} ({})", device.str(), why);
}

int device_count(c10::DeviceType type) {
  if (type == c10::DeviceType::CPU) return 1;
  if (!c10::impl::hasDeviceGuardImpl(type)) return 0;
  return std::max<int>(0, c10::impl::getDeviceGuardImpl(type)->deviceCount());
}

std::vector<std::string> known_devices() {
  std::vector<std::string> names{"cpu"};
  for (int8_t t = 1; t < static_cast<int8_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES); ++t) {
    const auto type = static_cast<c10::DeviceType>(t);
    // meta has shapes only: nothing can be trained on it.
    if (type == c10::DeviceType::Meta || device_count(type) == 0) continue;
    names.push_back(type_name(type));
  }
  for (const auto& name : plugins_found())
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

Choice choose(const std::string& text) {
  const DeviceSpec spec = parse_device_spec(text);
  if (spec.name == "auto") return choose_auto(spec);
  if (spec.name == "cpu") return {c10::Device(c10::DeviceType::CPU), "asked for"};

  std::string why = "asked for";
  auto type = torch_type(spec.name);
  if (type == c10::DeviceType::Meta) type.reset();
  if (!type || device_count(*type) == 0 || !spec.options.empty()) {
    if (const auto path = find_plugin(spec.name)) {
      load_plugin(*path, spec.options);
      why += ", from " + *path;
      type = torch_type(spec.name);
      if (!type)
        throw Error(
            fmt::format("{} was loaded, but registers no device named {}", *path, spec.name));
    } else if (!type) {
      throw UsageError(fmt::format("unknown device \"{}\"; {}", spec.name, list_known()),
                       "a backend of your own is loaded by device.plugins = [\"PATH.so\"]");
    } else if (!spec.options.empty()) {
      throw UsageError(fmt::format("device {} takes no options (\"{}\" given)", spec.name,
                                   spec.options.front().first));
    }
  }
  const int count = device_count(*type);
  if (count == 0)
    throw Error(fmt::format("no {} device is here; {}", spec.name, list_known()),
                "torch must be built for it, its driver must run, and the device must be visible");
  const int index = pick_index(spec, count, spec.name, why);
  return {c10::Device(*type, static_cast<c10::DeviceIndex>(index)), why};
}

bool has_local_rank() {
  return std::getenv("LOCAL_RANK") != nullptr;
}

int local_rank() {
  const char* const text = std::getenv("LOCAL_RANK");
  if (text == nullptr)
    throw Error("LOCAL_RANK is not set", "start ranks with torchrun, or set LOCAL_RANK yourself");
  const auto rank = to_int(text);
  if (!rank) throw Error(fmt::format("LOCAL_RANK=\"{}\" is not an integer", text));
  if (*rank < 0) throw Error(fmt::format("LOCAL_RANK={} is negative", *rank));
  return *rank;
}

int local_device_index(int rank, int count, const std::string& name) {
  if (count < 1) throw Error(fmt::format("local rank {}: no {} device is visible", rank, name));
  if (count == 1) return 0;
  if (rank >= count)
    throw Error(
        fmt::format("local rank {} has no device: {} {} devices are visible", rank, count, name),
        "start at most one rank per device on each machine");
  return rank;
}

}  // namespace plimsoll::device
