#include "plimsoll/report/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "plimsoll/base/error.h"

namespace plimsoll::report {
namespace {

Error failure(const std::filesystem::path& path, const char* what, int code) {
  return Error(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(code)));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, uint64_t size) : path_(std::move(path)) {
  // O_APPEND would put a record after whatever another process left there; we own the file.
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw failure(path_, "open for writing", errno);
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    const int code = errno;
    ::close(fd_);
    throw failure(path_, "cut to size", code);
  }
  size_ = size;
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  std::size_t written = 0;
  while (written < record.size()) {
    const ssize_t n = ::pwrite(fd_, record.data() + written, record.size() - written,
                               static_cast<off_t>(size_ + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int code = n < 0 ? errno : EIO;
      // If this fails too, the next append writes over the torn record all the same.
      [[maybe_unused]] const int ignored = ::ftruncate(fd_, static_cast<off_t>(size_));
      throw failure(path_, "write", code);
    }
    written += static_cast<std::size_t>(n);
  }
  size_ += record.size();
}

void AppendFile::sync() {
  if (::fdatasync(fd_) != 0) throw failure(path_, "sync", errno);
}

}  // namespace plimsoll::report
