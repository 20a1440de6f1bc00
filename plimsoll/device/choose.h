#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::device {

/// "auto", "cpu" or "NAME[:INDEX][,option=value...]", taken apart. After the colon digits are an
/// index; a word is the option "profile".
struct DeviceSpec {
  std::string name;
  std::optional<int> index;
  std::vector<std::pair<std::string, std::string>> options;
};

/// Throws UsageError that says what is wrong with the text.
DeviceSpec parse_device_spec(const std::string& text);

/// A device and the reason for it.
struct Choice {
  c10::Device device;
  std::string why;
  std::string line() const;  ///< "device: NAME:INDEX (why)", to be printed
};

/// Finds the device that `spec` names; never falls to another one.
///
/// auto: the accelerator that torch reports, if it counts at least one device, else the CPU.
/// A name that torch does not know yet is looked for as libplimsoll_NAME.so in the folders of
/// PLIMSOLL_PLUGIN_PATH and beside this library, and loaded. Without an index the one of
/// LOCAL_RANK is taken where that is set (see local_device_index), else 0. No context is created.
///
/// Throws UsageError: malformed, unknown name (the known ones are listed), options for a backend
/// that takes none. Throws Error: no such device, index out of range, LOCAL_RANK unusable.
Choice choose(const std::string& spec);

/// Names that choose() accepts here and now: cpu, what torch has devices of, and the plugins found.
std::vector<std::string> known_devices();

/// Number of devices of a type; 0 where there is no backend for it. Creates no context.
int device_count(c10::DeviceType type);

/// Loads a backend from a shared library; loading one twice is the same as once. A backend that
/// takes options exports  extern "C" const char* plimsoll_backend_configure(const char* key,
/// const char* value)  which returns null or what is wrong.
/// Throws Error: no such file, not loadable (with the loader's reason), no options taken.
void load_plugin(const std::string& path,
                 const std::vector<std::pair<std::string, std::string>>& options = {});

/// LOCAL_RANK of the environment. Throws Error, each with its own text: not set, not an integer,
/// negative.
int local_rank();
bool has_local_rank();  ///< LOCAL_RANK is set, to whatever

/// Index of the device that a rank uses, of `count` visible ones: 0 where only one is visible,
/// else the rank itself. Throws Error where rank >= count or nothing is visible.
int local_device_index(int rank, int count, const std::string& name);

}  // namespace plimsoll::device
