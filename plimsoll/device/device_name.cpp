#include "plimsoll/device/device_name.h"

#include <fstream>
#include <map>
#include <mutex>

namespace plimsoll::device {
namespace {

struct Askers {
  std::mutex mutex;
  std::map<c10::DeviceType, std::function<std::string(int)>> by_type;
};

Askers& askers() {
  static Askers it;
  return it;
}

}  // namespace

std::optional<std::string> cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  std::optional<std::string> other;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (!other && (line.starts_with("Hardware") || line.starts_with("CPU part"))) other = value;
  }
  return other;
}

std::optional<std::string> device_name(c10::Device device) {
  if (device.is_cpu()) return cpu_model();
  std::function<std::string(int)> ask;
  {
    const std::lock_guard lock(askers().mutex);
    const auto found = askers().by_type.find(device.type());
    if (found == askers().by_type.end()) return std::nullopt;
    ask = found->second;
  }
  try {
    std::string name = ask(device.has_index() ? device.index() : 0);
    if (!name.empty()) return name;
  } catch (const std::exception&) {  // a name is a nicety: without it peaks are n/a
  }
  return std::nullopt;
}

void register_device_name(c10::DeviceType type, std::function<std::string(int index)> ask) {
  const std::lock_guard lock(askers().mutex);
  askers().by_type[type] = std::move(ask);
}

}  // namespace plimsoll::device
