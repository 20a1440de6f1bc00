#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

/// An open file descriptor, closed once. Move only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Opens a regular file for reading. Error names the file and why (missing, a folder, no
/// permission).
FileDescriptor open_for_reading(const std::filesystem::path& path);

/// Whole file as bytes. Error names the file and why.
std::string read_file(const std::filesystem::path& path);

/// Replaces `path` by `bytes`, whole or not at all: a temp beside it, fsync, rename, fsync of the
/// folder. On failure the temp is gone, what was at `path` before is still there, and Error says
/// which step failed and why ("cannot write /x/y: No space left on device").
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// The same for a file that is written piece by piece. Without commit() nothing appears at `path`.
/// One thread at a time.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends.
  void write(std::string_view bytes);
  /// Overwrites bytes already written, e.g. a header that is known last.
  void write_at(std::uint64_t offset, std::string_view bytes);
  /// Bytes [offset, offset + size), which must have been written.
  void read_at(std::uint64_t offset, char* out, std::size_t size) const;
  std::uint64_t size() const noexcept { return size_; }
  /// fsync, rename, fsync of the folder. Once.
  void commit();

  /// Temps that a killed process left behind for `path`, removed. Only for a caller that holds a
  /// lock on `path`.
  static void remove_leftovers(const std::filesystem::path& path) noexcept;

 private:
  std::filesystem::path path_;
  std::filesystem::path temp_;
  FileDescriptor fd_;
  std::uint64_t size_ = 0;
};

/// fsync of a folder, so that a rename or a new entry in it survives a power cut.
void sync_folder(const std::filesystem::path& folder);

/// Makes a folder and its parents; Error names the folder and why.
void make_folders(const std::filesystem::path& folder);

/// Read-only view of a file's bytes through the page cache. Move only; any number of threads may
/// read. An empty file gives an empty span. The file must not be truncated while mapped (files that
/// are replaced by rename are safe).
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }
  std::size_t size() const noexcept { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An exclusive lock between processes (and threads) by a lock file, held until destroyed; the
/// constructor waits for it. The kernel releases it when the holder dies. The lock file is removed.
class FileLock {
 public:
  explicit FileLock(std::filesystem::path path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
};

/// An exclusive lock between processes on a folder itself, without waiting: empty where another
/// holds it. Held until the descriptor is closed; the kernel releases it when the holder dies. A
/// file system without locks gives a descriptor that excludes nobody. Throws Error when the folder
/// cannot be opened.
FileDescriptor try_lock_folder(const std::filesystem::path& folder);

/// $PLIMSOLL_CACHE, else $XDG_CACHE_HOME/plimsoll, else ~/.cache/plimsoll. Not created here.
std::filesystem::path cache_folder();

/// A path as a recipe writes it: a leading "$PLIMSOLL_CACHE" becomes cache_folder(), a leading "~/"
/// the home folder. Everything else stays as it is.
std::string expand_path(const std::string& path);

}  // namespace plimsoll
