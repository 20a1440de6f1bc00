#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "plimsoll/base/files.h"

namespace plimsoll::checkpoint {

/// Throws Error "cannot <doing> <path>: <reason of errno value>" with a hint where there is one.
[[noreturn]] void throw_system_error(std::string_view doing, const std::filesystem::path& path,
                                     int error);

/// A new file being written. Every call throws Error naming the step and the file.
class NewFile {
 public:
  /// Fails when `path` exists.
  explicit NewFile(const std::filesystem::path& path);
  void write(const void* data, std::size_t bytes);
  /// Flushes to the disk and closes.
  void finish();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

void write_new_file(const std::filesystem::path& path, std::string_view text);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
/// Puts `from` in the place of `to`, which may be a folder with entries; what was there is then
/// under the name `from`, or gone. Atomic where the file system can exchange names.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace plimsoll::checkpoint
