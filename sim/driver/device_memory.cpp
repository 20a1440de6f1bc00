#include "sim/driver/device_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"

namespace plimsoll::sim {

DeviceMemory::DeviceMemory(std::uint64_t capacity, bool backed) : capacity_(capacity) {
  constexpr std::uint64_t kLargest = std::uint64_t{4} << 40;
  if (capacity == 0 || capacity > kLargest)
    throw Error(fmt::format("a simulated device has between 1 byte and {}, not {}",
                            format_bytes(kLargest), capacity));
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  mapped_ = (capacity + page - 1) / page * page * kAddressesPerByte;
  const auto fail = [&](const char* what) {
    const int error = errno;
    if (begin_ != 0) munmap(reinterpret_cast<void*>(begin_), mapped_);
    if (file_ >= 0) close(file_);
    return Error(fmt::format("cannot make a simulated device of {}: {}: {}",
                             format_bytes(static_cast<std::int64_t>(capacity)), what,
                             std::generic_category().message(error)));
  };
  if (backed) {
    file_ = memfd_create("plimsoll-sim", MFD_CLOEXEC);
    if (file_ < 0) throw fail("memfd_create");
    if (ftruncate(file_, static_cast<off_t>(mapped_)) != 0) throw fail("ftruncate");
  }
  const int flags = (backed ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE;
  void* const seen = mmap(nullptr, mapped_, PROT_NONE, flags, file_, 0);
  if (seen == MAP_FAILED) throw fail("mmap");
  begin_ = reinterpret_cast<Address>(seen);
  if (!backed) return;
  void* const tasks = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (tasks == MAP_FAILED) throw fail("mmap");
  tasks_ = static_cast<std::byte*>(tasks);
}

DeviceMemory::~DeviceMemory() {
  munmap(reinterpret_cast<void*>(begin_), mapped_);
  if (tasks_ != nullptr) munmap(tasks_, mapped_);
  if (file_ >= 0) close(file_);
}

void DeviceMemory::give_back(Address begin, Address end) noexcept {
  if (file_ < 0 || end <= begin) return;
  // Best effort: pages that stay are only memory.
  (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(begin - begin_), static_cast<off_t>(end - begin));
}

}  // namespace plimsoll::sim
