// Uses an installed Plimsoll: picks a device, runs an operator on it, shows what memory it took.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <cstdio>

#include "plimsoll/base/error.h"
#include "plimsoll/device/choose.h"
#include "plimsoll/device/memory_monitor.h"
#include "plimsoll/version.h"

int main(int argc, char** argv) {
  try {
    const auto choice = plimsoll::device::choose(argc > 1 ? argv[1] : "auto");
    const at::Tensor x = at::ones({64, 64}, at::TensorOptions(at::kFloat).device(choice.device));
    const double trace = x.matmul(x).trace().item<double>();
    const auto memory = plimsoll::device::MemoryMonitor(choice.device).read();
    std::printf("plimsoll %s, %s, trace %.0f, memory %s\n", plimsoll::version(),
                choice.line().c_str(), trace, memory.text(memory.active).c_str());
    return trace == 64 * 64 ? 0 : 1;
  } catch (const plimsoll::Error& e) {
    std::fprintf(stderr, "consumer: %s\n", e.what());
    return 1;
  }
}
