#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

namespace plimsoll::device {

/// The model of a device as its maker calls it: for the CPU from /proc/cpuinfo. torch has no
/// generic question for it, so for other devices it is absent unless a backend said how to ask.
std::optional<std::string> device_name(c10::Device device);

/// Called by backends at load. Thread-safe; the last one for a type holds. It may be called with
/// any index that exists, must not create a context, and what it throws counts as "unknown".
void register_device_name(c10::DeviceType type, std::function<std::string(int index)> ask);

/// "model name" of the first processor, or another field where there is none; absent when neither.
std::optional<std::string> cpu_model();

}  // namespace plimsoll::device
