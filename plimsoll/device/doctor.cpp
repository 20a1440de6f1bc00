#include "plimsoll/device/doctor.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <chrono>
#include <functional>
#include <stdexcept>

#include "plimsoll/device/choose.h"
#include "plimsoll/device/device_name.h"
#include "plimsoll/device/memory_monitor.h"
#include "plimsoll/device/peak_flops.h"
#include "plimsoll/version.h"

namespace plimsoll::device {
namespace {

using Clock = std::chrono::steady_clock;

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

DoctorCheck tried(std::string name, std::string area, std::string affects,
                  const std::function<std::string()>& check) {
  DoctorCheck row{std::move(name), std::move(area), CheckResult::kFail, "", std::move(affects)};
  try {
    row.how = check();
    row.result = CheckResult::kPass;
  } catch (const std::exception& e) {
    const std::string what = e.what();
    row.how = what.substr(0, what.find('\n'));
  } catch (...) {
    row.how = "failed with an exception of an unknown type";
  }
  return row;
}

at::Tensor numbers(int64_t count) {
  return at::arange(count, at::TensorOptions(at::kFloat));
}

std::string order_of_events(c10::Device device) {
  const c10::impl::VirtualGuardImpl impl(device.type());
  const auto first = impl.getStreamFromGlobalPool(device);
  const auto second = impl.getStreamFromGlobalPool(device);
  const at::Tensor from = numbers(1 << 20).to(device);
  impl.synchronizeDevice(device.index());
  at::Tensor middle = at::zeros_like(from);
  impl.synchronizeDevice(device.index());
  c10::Event ready(device.type());
  {
    const c10::StreamGuard on(first);
    for (int i = 0; i < 8; ++i) middle.add_(from);
    ready.record(first);
  }
  at::Tensor result;
  {
    const c10::StreamGuard on(second);
    ready.block(second);
    result = middle.mul(1);
  }
  impl.synchronizeStream(second);
  require(at::equal(result.to(c10::kCPU), numbers(1 << 20) * 8),
          "work after the event did not see the work before it");
  return "two streams, one event between them";
}

/// Copies within host memory, bytes read plus bytes written, the best of some.
double copy_gb_per_s() {
  const at::Tensor from = at::zeros({int64_t{16} << 20}, at::TensorOptions(at::kFloat));
  at::Tensor to = at::zeros_like(from);
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    const auto begin = Clock::now();
    to.copy_(from);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * static_cast<double>(from.nbytes()) / seconds / 1e9);
  }
  return best;
}

std::vector<DoctorDevice> list_devices() {
  std::vector<DoctorDevice> devices;
  for (int8_t t = 0; t < static_cast<int8_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES); ++t) {
    const auto type = static_cast<c10::DeviceType>(t);
    if (type == c10::DeviceType::Meta) continue;
    for (int i = 0; i < device_count(type); ++i) {
      const bool cpu = type == c10::DeviceType::CPU;
      const c10::Device device(type, static_cast<c10::DeviceIndex>(cpu ? -1 : i));
      DoctorDevice row{device, device_name(device), MemoryMonitor(device).read().capacity, {}};
      if (!cpu && row.name) row.peak = listed_peak_flops(*row.name);
      devices.push_back(std::move(row));
    }
  }
  return devices;
}

}  // namespace

bool DoctorReport::healthy() const {
  for (const auto& check : checks)
    if (check.result == CheckResult::kFail) return false;
  return true;
}

std::vector<DoctorCheck> check_device(c10::Device device, const Capabilities& capabilities) {
  constexpr int64_t kCount = 4096;
  std::vector<DoctorCheck> checks;
  checks.push_back(tried("allocate", "memory", "everything", [&] {
    const auto options = at::TensorOptions(at::kFloat).device(device);
    at::Tensor t = at::empty({kCount}, options);
    require(t.device().type() == device.type(), "the tensor is on " + t.device().str());
    require(at::empty({0}, options).numel() == 0, "an empty tensor is not empty");
    return fmt::format("{} bytes and 0 bytes", t.nbytes());
  }));
  checks.push_back(tried("copy", "memory", "everything", [&] {
    const at::Tensor host = numbers(kCount);
    require(at::equal(host.to(device).to(c10::kCPU), host),
            "bytes changed on the way there and back");
    const at::Tensor turned = host.view({64, 64}).t();
    require(at::equal(turned.to(device).to(c10::kCPU), turned),
            "a transposed tensor came back different");
    return std::string("there and back, contiguous and transposed");
  }));
  checks.push_back(tried("add", "compute", "everything", [&] {
    const at::Tensor host = numbers(kCount);
    const at::Tensor there = host.to(device);
    require(at::equal((there + there).to(c10::kCPU), host + host),
            "the sum differs from the CPU's");
    return std::string("equal to the CPU's, to the bit");
  }));
  checks.push_back(tried("backward", "training", "training", [&] {
    at::Tensor x = numbers(kCount).to(device).requires_grad_(true);
    (x * x).sum().backward();
    require(x.grad().defined(), "no gradient arrived");
    require(at::equal(x.grad().to(c10::kCPU), numbers(kCount) * 2),
            "the gradient of x*x is not 2x");
    return std::string("the gradient of a sum of squares");
  }));
  const std::string without = "overlap of copies and compute; without it the same numbers, slower";
  if (capabilities.streams.yes() && capabilities.events.yes()) {
    checks.push_back(tried("event order", "order", without, [&] {
      return order_of_events(device.has_index() ? device : c10::Device(device.type(), 0));
    }));
  } else {
    const auto& missing = capabilities.streams.yes() ? capabilities.events : capabilities.streams;
    checks.push_back({"event order", "order", CheckResult::kAbsent, missing.how, without});
  }
  return checks;
}

DoctorReport run_doctor(const std::string& spec, bool measure) {
  const Choice choice = choose(spec);
  DoctorReport report;
  report.device = choice.device;
  report.why = choice.why;
  report.devices = list_devices();
  report.versions = {{"plimsoll", version()},
                     {"torch", TORCH_VERSION},
                     {"compiler", __VERSION__},
                     {"C++", std::to_string(__cplusplus / 100 % 100)}};
  report.threads = at::get_num_threads();
  report.instructions = at::get_cpu_capability();
  report.memory = host_memory();
  try {
    report.topology = read_topology();
  } catch (const std::exception&) {  // stays absent
  }
  report.capabilities = probe_capabilities(choice.device);
  report.checks = check_device(choice.device, report.capabilities);
  report.measured = {{"fp32_gflops", {}}, {"bf16_gflops", {}}, {"copy_gb_per_s", {}}};
  if (measure) {
    report.measured[0].second = remeasured_cpu_peak_flops(at::kFloat) / 1e9;
    report.measured[1].second = remeasured_cpu_peak_flops(at::kBFloat16) / 1e9;
    report.measured[2].second = copy_gb_per_s();
  }
  return report;
}

}  // namespace plimsoll::device
