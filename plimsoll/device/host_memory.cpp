#include "plimsoll/device/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace plimsoll::device {
namespace {

std::optional<int64_t> to_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || value < 0) return std::nullopt;
  return value;
}

/// The number after "KEY:" in a file of lines "KEY:   123 kB", in bytes.
std::optional<int64_t> kib_line(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':') {
      const auto kib = to_number(std::string_view(line).substr(key.size() + 1));
      return kib && *kib < (int64_t{1} << 52) ? std::optional(*kib * 1024) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> limit_file(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  if (!(in >> word) || word == "max") return std::nullopt;
  const auto value = to_number(word);
  // Version 1 says "none" by a number near the largest there is.
  return value && *value < (int64_t{1} << 60) ? value : std::nullopt;
}

void keep_smaller(std::optional<int64_t>& least, std::optional<int64_t> value) {
  if (value && (!least || *value < *least)) least = value;
}

/// The limits of `group` and of each group above it: the tightest one holds.
std::optional<int64_t> tightest(const std::string& mount, std::string group,
                                const std::string& file) {
  std::optional<int64_t> least;
  while (true) {
    keep_smaller(least, limit_file(mount + group + "/" + file));
    if (group.empty()) return least;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

std::optional<int64_t> HostMemory::capacity() const {
  std::optional<int64_t> least = total;
  keep_smaller(least, container_limit);
  return least;
}

std::optional<int64_t> container_memory_limit(const std::string& root) {
  std::optional<int64_t> least;
  std::ifstream in(root + "/proc/self/cgroup");
  // Lines "ID:CONTROLLERS:/PATH"; version 2 has no controllers there.
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      keep_smaller(least, tightest(root + "/sys/fs/cgroup", group, "memory.max"));
      keep_smaller(least, tightest(root + "/sys/fs/cgroup/unified", group, "memory.max"));
    } else {
      std::istringstream names(controllers);
      for (std::string name; std::getline(names, name, ',');)
        if (name == "memory")
          keep_smaller(least,
                       tightest(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

HostMemory host_memory(const std::string& root) {
  HostMemory memory;
  memory.resident = kib_line(root + "/proc/self/status", "VmRSS");
  memory.peak_resident = kib_line(root + "/proc/self/status", "VmHWM");
  memory.total = kib_line(root + "/proc/meminfo", "MemTotal");
  memory.available = kib_line(root + "/proc/meminfo", "MemAvailable");
  memory.container_limit = container_memory_limit(root);
  return memory;
}

bool reset_peak_resident() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return out.good();
}

}  // namespace plimsoll::device
