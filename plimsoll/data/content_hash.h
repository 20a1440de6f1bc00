#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace plimsoll::data {

/// What tells one state of a file from another without reading it.
struct FileStamp {
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;

  bool operator==(const FileStamp&) const = default;
};

/// Error names the file and why.
FileStamp stamp_of(const std::filesystem::path& path);

struct ContentHash {
  std::string hash;  ///< xxh3_hex of the bytes
  FileStamp stamp;   ///< of the file when they were read
};

/// The hash of a file's bytes, remembered in `memo_folder` while path and stamp are the same. A
/// memo that cannot be read or written only costs time. Error: the file cannot be read, or changed
/// while it was read.
ContentHash content_hash(const std::filesystem::path& path,
                         const std::filesystem::path& memo_folder);

}  // namespace plimsoll::data
