#include "plimsoll/device/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "plimsoll/base/error.h"
#include "plimsoll/device/choose.h"

namespace plimsoll::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "libplimsoll_";
constexpr const char* kSuffix = ".so";

}  // namespace

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  if (const char* const path = std::getenv("PLIMSOLL_PLUGIN_PATH")) {
    std::istringstream in(path);
    for (std::string folder; std::getline(in, folder, ':');)
      if (!folder.empty()) folders.push_back(folder);
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&plugin_folders), &info) != 0 && info.dli_fname) {
    std::error_code ignored;
    const fs::path self = fs::canonical(info.dli_fname, ignored);
    if (!ignored) folders.push_back(self.parent_path().string());
  }
  return folders;
}

std::optional<std::string> find_plugin(const std::string& name) {
  if (name == "base") return std::nullopt;
  for (const auto& folder : plugin_folders()) {
    const fs::path path = fs::path(folder) / (kPrefix + name + kSuffix);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return std::nullopt;
}

std::vector<std::string> plugins_found() {
  std::set<std::string> names;
  for (const auto& folder : plugin_folders()) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string file = it->path().filename().string();
      if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
      const size_t skip = std::string(kPrefix).size();
      const std::string name = file.substr(skip, file.size() - skip - std::string(kSuffix).size());
      if (!name.empty() && name != "base") names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

void load_plugin(const std::string& path,
                 const std::vector<std::pair<std::string, std::string>>& options) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error(fmt::format("backend {}: no such file", path), "give the path of a shared library");
  // Global: what it registers with torch, others may look up. Never closed: torch keeps pointers.
  void* const library = dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw Error(
        fmt::format("backend {}: cannot be loaded: {}", path, reason ? reason : "no reason given"),
        "it must be built for this machine and this torch");
  }
  if (options.empty()) return;
  using Configure = const char* (*)(const char*, const char*);
  const auto configure = reinterpret_cast<Configure>(dlsym(library, "plimsoll_backend_configure"));
  for (const auto& [key, value] : options) {
    if (configure == nullptr)
      throw UsageError(fmt::format("backend {}: takes no options (\"{}\" given)", path, key));
    if (const char* const wrong = configure(key.c_str(), value.c_str()))
      throw UsageError(fmt::format("backend {}: {}={}: {}", path, key, value, wrong));
  }
}

}  // namespace plimsoll::device
