#include "plimsoll/checkpoint/durable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "plimsoll/base/error.h"

namespace plimsoll::checkpoint {
namespace fs = std::filesystem;

void throw_system_error(std::string_view doing, const fs::path& path, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "free some space, or write to another disk";
  if (error == EFBIG) hint = "raise the limit on file sizes (ulimit -f)";
  if (error == EACCES || error == EROFS || error == EPERM) {
    hint = "make the folder writable, or choose another one";
  }
  throw Error(
      fmt::format("cannot {} {}: {}", doing, path.string(), std::generic_category().message(error)),
      std::move(hint));
}

NewFile::NewFile(const fs::path& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_) throw_system_error("create", path_, errno);
}

void NewFile::write(const void* data, std::size_t bytes) {
  auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_.get(), at, std::min<std::size_t>(bytes, 1u << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_system_error("write", path_, errno);
    }
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void NewFile::finish() {
  if (::fsync(file_.get()) != 0) throw_system_error("sync", path_, errno);
  file_ = FileDescriptor();
}

void write_new_file(const fs::path& path, std::string_view text) {
  NewFile file(path);
  file.write(text.data(), text.size());
  file.finish();
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw_system_error(fmt::format("rename {} to", from.string()), to, errno);
  }
}

void replace_folder(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::exists(to, ignored) && !fs::is_directory(to, ignored)) {
    throw Error(to.string() + " is in the way: not a folder", "move it elsewhere");
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno == ENOENT && fs::exists(from)) return rename_path(from, to);
  if (errno != EINVAL && errno != ENOSYS) {
    throw_system_error(fmt::format("rename {} to", from.string()), to, errno);
  }
  const fs::path aside = from.string() + "-old";
  rename_path(to, aside);
  try {
    rename_path(from, to);
  } catch (...) {
    fs::rename(aside, to, ignored);
    throw;
  }
  fs::remove_all(aside, ignored);
}

}  // namespace plimsoll::checkpoint
