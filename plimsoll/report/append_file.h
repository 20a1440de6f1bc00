#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace plimsoll::report {

/// A file that grows by whole records: a write that fails half way is taken back, so that the file
/// always ends with a whole record (after a crash of the machine the reader may still find a torn
/// end). Move only, not thread safe.
class AppendFile {
 public:
  /// Opens or creates `path` and cuts it to its first `size` bytes. Throws Error.
  explicit AppendFile(std::filesystem::path path, uint64_t size = 0);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  /// Appends the record, or throws Error (path, reason) and leaves the file as it was.
  void append(std::string_view record);
  void sync();
  uint64_t size() const noexcept { return size_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace plimsoll::report
