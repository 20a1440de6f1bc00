#include "plimsoll/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <system_error>
#include <utility>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(std::string_view step, const fs::path& path, int code) {
  throw Error(
      fmt::format("cannot {} {}: {}", step, path.string(), std::generic_category().message(code)));
}

int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

fs::path folder_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

std::string temp_prefix(const fs::path& path) {
  return fmt::format(".{}.tmp-", path.filename().string());
}

fs::path fresh_temp_name(const fs::path& path) {
  static std::atomic<std::uint32_t> counter = std::random_device{}();
  return folder_of(path) /
         fmt::format("{}{}-{:08x}", temp_prefix(path), ::getpid(), counter.fetch_add(1));
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor open_for_reading(const fs::path& path) {
  // O_NONBLOCK: opening a named pipe must not hang before the check below.
  FileDescriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (!fd) fail("open", path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail("stat", path, errno);
  if (S_ISDIR(info.st_mode)) fail("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    throw Error(fmt::format("cannot read {}: not a regular file", path.string()));
  }
  return fd;
}

std::string read_file(const fs::path& path) {
  const FileDescriptor fd = open_for_reading(path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail("stat", path, errno);
  std::string bytes;
  // Files of /proc report size 0, others may grow: read until the end, whatever the size says.
  std::size_t used = 0;
  bytes.resize(static_cast<std::size_t>(info.st_size) + 1);
  while (true) {
    if (used == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
    const ssize_t got = ::read(fd.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  for (int attempt = 0; !fd_; ++attempt) {
    temp_ = fresh_temp_name(path_);
    fd_ = FileDescriptor(open_retrying(temp_, O_RDWR | O_CREAT | O_EXCL, 0666));
    if (!fd_ && (errno != EEXIST || attempt == 100)) {
      const int code = errno;
      temp_.clear();
      fail("write in the folder of", path_, code);
    }
  }
}

AtomicFile::~AtomicFile() {
  if (!temp_.empty()) ::unlink(temp_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  const std::uint64_t at = size_;
  write_at(at, bytes);
}

void AtomicFile::write_at(std::uint64_t offset, std::string_view bytes) {
  if (!fd_) throw Error(fmt::format("{} is already committed", path_.string()));
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write", path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
    if (offset > size_) size_ = offset;
  }
}

void AtomicFile::read_at(std::uint64_t offset, char* out, std::size_t size) const {
  while (size > 0) {
    const ssize_t got = ::pread(fd_.get(), out, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("read back", path_, got < 0 ? errno : EIO);
    out += got;
    size -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

void AtomicFile::commit() {
  if (!fd_) throw Error(fmt::format("{} is already committed", path_.string()));
  if (::fsync(fd_.get()) != 0) fail("write (fsync)", path_, errno);
  fd_ = FileDescriptor();
  if (::rename(temp_.c_str(), path_.c_str()) != 0) fail("rename a finished temp to", path_, errno);
  temp_.clear();
  sync_folder(folder_of(path_));
}

void AtomicFile::remove_leftovers(const fs::path& path) noexcept {
  try {
    const std::string prefix = temp_prefix(path);
    for (const auto& entry : fs::directory_iterator(folder_of(path))) {
      if (entry.path().filename().string().starts_with(prefix)) {
        std::error_code ignored;
        fs::remove(entry.path(), ignored);
      }
    }
  } catch (const std::exception&) {
    // Leftovers waste space, no more.
  }
}

void sync_folder(const fs::path& folder) {
  const FileDescriptor fd(open_retrying(folder, O_RDONLY | O_DIRECTORY));
  if (!fd) fail("open folder", folder, errno);
  // Some network file systems cannot sync folders and say so with EINVAL.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail("sync folder", folder, errno);
}

void make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) {
    throw Error(fmt::format("cannot make folder {}: {}", folder.string(), code.message()));
  }
  if (!fs::is_directory(folder, code)) fail("make folder", folder, ENOTDIR);
}

MappedFile::MappedFile(const fs::path& path) {
  const FileDescriptor fd = open_for_reading(path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail("stat", path, errno);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;  // mmap refuses an empty range
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) fail("map", path, errno);
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileLock::FileLock(fs::path path) : path_(std::move(path)) {
  while (true) {
    fd_ = FileDescriptor(open_retrying(path_, O_RDWR | O_CREAT, 0666));
    if (!fd_) fail("open lock", path_, errno);
    int result = 0;
    do {
      result = ::flock(fd_.get(), LOCK_EX);
    } while (result != 0 && errno == EINTR);
    if (result != 0) fail("lock", path_, errno);
    // The holder before us removes the file: a lock on a file that is no longer there excludes
    // nobody, so try again on the new one.
    struct stat ours {};
    struct stat there {};
    if (::fstat(fd_.get(), &ours) == 0 && ::stat(path_.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
      return;
    }
  }
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());
}

FileDescriptor try_lock_folder(const fs::path& folder) {
  FileDescriptor fd(open_retrying(folder, O_RDONLY | O_DIRECTORY, 0));
  if (!fd) fail("open", folder, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  return fd;
}

fs::path cache_folder() {
  if (const char* own = std::getenv("PLIMSOLL_CACHE"); own != nullptr && *own != '\0') return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') {
    return fs::path(xdg) / "plimsoll";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    throw Error("no folder for cached files: neither PLIMSOLL_CACHE nor HOME is set",
                "set PLIMSOLL_CACHE to a folder you can write");
  }
  return fs::path(home) / ".cache" / "plimsoll";
}

std::string expand_path(const std::string& path) {
  constexpr std::string_view kCache = "$PLIMSOLL_CACHE";
  if (path.starts_with(kCache) && (path.size() == kCache.size() || path[kCache.size()] == '/')) {
    return cache_folder().string() + path.substr(kCache.size());
  }
  const char* home = std::getenv("HOME");
  if (path.starts_with("~/") && home) return home + path.substr(1);
  return path;
}

}  // namespace plimsoll
