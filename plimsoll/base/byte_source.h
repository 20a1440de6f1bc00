#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll {

/// Bytes read once from front to back in bounded memory. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Up to `size` bytes into `out`; 0 only at the end. Error names the source and the offset.
  virtual std::size_t read(char* out, std::size_t size) = 0;
  /// For error messages: the path, or the name given.
  virtual const std::string& name() const = 0;
};

/// A file, decompressed on the way when its first bytes say gzip or zstd (concatenated members and
/// frames are one stream). Damaged or truncated compressed data is an Error that names the file
/// and the offset in it.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

/// The bytes themselves, never decompressed; `bytes` must outlive the source.
std::unique_ptr<ByteSource> memory_source(std::string_view bytes, std::string name = "memory");

}  // namespace plimsoll
