#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::device {

/// Folders where backends are looked for: PLIMSOLL_PLUGIN_PATH (colon-separated), then the folder
/// of this library.
std::vector<std::string> plugin_folders();

/// Path of libplimsoll_NAME.so in those folders, the first that is there.
std::optional<std::string> find_plugin(const std::string& name);

/// Names of all backends in those folders, sorted, each once. Our own base library is none.
std::vector<std::string> plugins_found();

}  // namespace plimsoll::device
