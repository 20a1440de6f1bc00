#include "bench/op_recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Call {
  std::string name;
  Clock::time_point begin;
  double inside = 0;  // seconds of the calls within this one
};

struct Recording {
  OpTimes times;
  std::string phase;
  std::vector<Call> calls;  // that run now, innermost last
};

// Callbacks and allocators are found through torch, so what they write to is found here. Other
// threads have none and are not recorded.
thread_local std::unique_ptr<Recording> recording;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string shape(const at::Tensor& t) {
  const bool transposed = t.dim() >= 2 && t.stride(-1) != 1 && t.stride(-2) == 1 && t.size(-1) != 1;
  return fmt::format("{}{}", fmt::join(t.sizes(), "x"), transposed ? "'" : "");
}

std::string call_name(const at::RecordFunction& fn) {
  const std::string_view name = fn.name();
  size_t first = 0;  // of the two factors among the arguments
  if (name == "aten::addmm" || name == "aten::addmm_") {
    first = 1;
  } else if (name != "aten::mm" && name != "aten::bmm") {
    return std::string(name);
  }
  const auto inputs = fn.inputs();
  if (inputs.size() < first + 2 || !inputs[first].isTensor() || !inputs[first + 1].isTensor()) {
    return std::string(name);
  }
  return fmt::format("{} {} * {}", name, shape(inputs[first].toTensor()),
                     shape(inputs[first + 1].toTensor()));
}

std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction& fn) {
  if (recording != nullptr) recording->calls.push_back({call_name(fn), Clock::now()});
  return nullptr;
}

void end_call(const at::RecordFunction&, at::ObserverContext*) {
  if (recording == nullptr || recording->calls.empty()) return;
  const Call call = std::move(recording->calls.back());
  recording->calls.pop_back();
  const double took = seconds_since(call.begin);
  OpTime& op = recording->times.ops[{recording->phase, call.name}];
  op.seconds += took - call.inside;
  // An operator's autograd form calls the one of the same name below it: one call.
  const bool outer = recording->calls.empty() || recording->calls.back().name != call.name;
  if (outer) ++op.calls;
  if (!recording->calls.empty()) recording->calls.back().inside += took;
}

void count_allocation(Clock::time_point begin, int64_t calls) {
  if (recording == nullptr) return;
  const double took = seconds_since(begin);
  recording->times.allocation.seconds += took;
  recording->times.allocation.calls += calls;
  if (!recording->calls.empty()) recording->calls.back().inside += took;
}

// Hands everything to the allocator that was there. A block's context stays the block itself, as
// the raw allocation that some of torch's kernels use wants it.
class TimedAllocator final : public c10::Allocator {
 public:
  explicit TimedAllocator(c10::Allocator* inner) : inner_(inner) {
    inner_release = inner->raw_deleter();
    if (inner_release == nullptr) throw Error("the CPU allocator does not give out raw blocks");
  }

  c10::DataPtr allocate(size_t bytes) override {
    const Clock::time_point begin = Clock::now();
    c10::DataPtr block = inner_->allocate(bytes);
    if (!block.compare_exchange_deleter(inner_release, &release)) {
      throw Error("the CPU allocator gave a block that its raw deleter does not free");
    }
    count_allocation(begin, 1);
    return block;
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }

 private:
  static void release(void* block) {
    const Clock::time_point begin = Clock::now();
    inner_release(block);
    count_allocation(begin, 0);
  }

  inline static c10::DeleterFnPtr inner_release = nullptr;
  c10::Allocator* inner_;
};

void install_timed_allocator() {
  constexpr uint8_t kPriority = 255;
  // Tensors in static storage may outlive everything else, so it is never destroyed.
  static auto* const timed = std::make_unique<TimedAllocator>(c10::GetCPUAllocator()).release();
  c10::SetCPUAllocator(timed, kPriority);
}

}  // namespace

OpRecorder::OpRecorder() {
  install_timed_allocator();
  recording = std::make_unique<Recording>();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin_call, end_call)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

OpRecorder::~OpRecorder() {
  at::removeCallback(handle_);
  recording.reset();
}

void OpRecorder::phase(std::string name) {
  recording->phase = std::move(name);
}

void OpRecorder::reset() {
  recording->times = {};
}

const OpTimes& OpRecorder::times() const {
  return recording->times;
}

}  // namespace plimsoll::bench
