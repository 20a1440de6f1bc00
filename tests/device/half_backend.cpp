// A device named "half" that does the least: it allocates (on the host) and has a guard. Its
// allocator's statistics throw, its pinned memory claims to be on the device, it has no events and
// one stream only, and it registers no hooks object.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr int kDevices = 2;
thread_local c10::DeviceIndex current = 0;
// Counts calls that a query must not make.
int contexts = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device old(kType, current);
    setDevice(d);
    return old;
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device d) const override {
    ++contexts;
    current = d.index();
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override { current = d.index(); }
  c10::Stream getStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, d);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
    return c10::Stream(c10::Stream::DEFAULT, d);
  }
  c10::Stream exchangeStream(c10::Stream s) const override { return s; }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

void release(void* p) {
  std::free(p);
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t n) override {
    void* const p = n == 0 ? nullptr : std::malloc(n);
    return {p, p, &release, c10::Device(kType, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override {
    default_copy_data(to, from, n);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    TORCH_CHECK(false, "half has no statistics");
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { TORCH_CHECK(false, "none"); }
  void resetPeakStats(c10::DeviceIndex) override { TORCH_CHECK(false, "none"); }
};
Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator);

struct Host final : at::HostAllocator {
  c10::DataPtr allocate(size_t n) override {
    void* const p = std::malloc(n);
    return {p, p, &release, c10::Device(kType, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t n) const override {
    default_copy_data(to, from, n);
  }
  bool record_event(void*, void*, c10::Stream) override { return false; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};
Host host;
REGISTER_HOST_ALLOCATOR(kType, &host);

const bool named = [] {
  c10::register_privateuse1_backend("half");
  return true;
}();

}  // namespace

extern "C" int half_contexts() {
  return contexts;
}
