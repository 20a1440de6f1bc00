#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/device/capabilities.h"
#include "plimsoll/device/host_memory.h"
#include "plimsoll/device/topology.h"

namespace plimsoll::device {

enum class CheckResult { kPass, kFail, kAbsent };

/// One thing that was tried on the device.
struct DoctorCheck {
  std::string name;
  std::string area;  ///< memory, compute, order, training
  CheckResult result = CheckResult::kAbsent;
  std::string how;      ///< what was done, or why it failed
  std::string affects;  ///< what a user loses without it
};

struct DoctorDevice {
  c10::Device device;
  std::optional<std::string> name;
  std::optional<int64_t> capacity;  ///< bytes
  std::optional<double> peak;       ///< dense bf16 FLOP/s; n/a for a device that is not listed
};

struct DoctorReport {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::string why;  ///< why this device
  std::vector<DoctorDevice> devices;
  Capabilities capabilities;
  std::vector<DoctorCheck> checks;
  std::vector<std::pair<std::string, std::string>> versions;  ///< plimsoll, torch, compiler, ...
  int threads = 0;                                            ///< torch's, within an operator
  std::string instructions;                                   ///< the best set that torch uses here
  HostMemory memory;
  std::optional<Topology> topology;
  /// Name with unit (fp32_gflops, bf16_gflops, copy_gb_per_s); absent when it was not measured.
  std::vector<std::pair<std::string, std::optional<double>>> measured;

  bool healthy() const;  ///< no check failed
};

/// Looks at the machine and tries the device that `spec` names (see choose.h, which says what is
/// thrown for a bad one). With `measure` it also takes about a second to time it. Nothing that is
/// wrong with the device throws: it is a failed check.
DoctorReport run_doctor(const std::string& spec = "auto", bool measure = true);

/// The basic checks alone: allocate, copy there and back, add, order of events, backward.
std::vector<DoctorCheck> check_device(c10::Device device, const Capabilities& capabilities);

/// For people: several lines, ending with a newline.
std::string to_text(const DoctorReport& report);

/// {"device":..., "checks":[{"name","area","result":"pass|fail|absent","how","affects"}],
///  "measured":{...}, ...} on one line; absent numbers are null.
std::string to_json(const DoctorReport& report);

}  // namespace plimsoll::device
