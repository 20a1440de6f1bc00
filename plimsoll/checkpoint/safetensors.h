#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/files.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/checkpoint/dtype.h"

namespace plimsoll::checkpoint {

/// The safetensors file format (specified by Hugging Face): 8 bytes of little-endian header size, a
/// JSON header, then the data of all tensors without gaps. A reader here accepts only whole files:
/// the offsets of all tensors must tile the rest of the file exactly, and everything else is one
/// Error that names the file, the tensor, what was expected and what was found.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  // empty for a scalar
  std::uint64_t begin = 0;          // bytes from the start of the data section
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

/// "[2, 3]", as error messages write shapes.
std::string shape_text(std::span<const std::int64_t> shape);

/// Bytes of a dense tensor; empty when that overflows or is no whole number of bytes.
std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // in order of their data
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::uint64_t data_begin = 0;                 // bytes from the start of the file
};

/// Parses and checks the start of a file. `bytes` holds at least the header, or all there is of the
/// file; `file_bytes` is the size of the whole file; `file` names it in errors. Throws Error for
/// anything that is not a whole file, whatever the bytes are.
SafetensorsHeader parse_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                               std::string_view file);

/// An open file, mapped into memory. Immutable, so any number of threads may read it. A file that
/// another process truncates while it is mapped kills readers of bytes() (SIGBUS); read_tensors
/// reports an Error instead.
class SafetensorsFile {
 public:
  /// Opens, maps and checks `path`. Throws Error.
  explicit SafetensorsFile(std::filesystem::path path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Null when there is no such tensor. Valid as long as this object.
  const TensorInfo* find(std::string_view name) const;
  /// Like find, but throws Error when there is no such tensor.
  const TensorInfo& at(std::string_view name) const;
  /// The data of a tensor of this file; not necessarily aligned to its element.
  std::span<const std::byte> bytes(const TensorInfo& info) const;
  /// Copies from the data section; adds to `hash` unless null. Throws Error.
  void read(std::uint64_t begin, std::uint64_t bytes, void* destination, Xxh3* hash) const;

 private:
  std::uint64_t read_some(std::uint64_t at, std::uint64_t bytes, void* out) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  std::uint64_t file_bytes_ = 0;
  const std::byte* map_ = nullptr;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  // indices of header_.tensors, sorted by name
};

/// One tensor to read: `destination` has room for info->bytes().
struct ReadRequest {
  const TensorInfo* info = nullptr;
  void* destination = nullptr;
};

/// How work is shared out: calls work(0) .. work(count - 1) in any order, from any threads, returns
/// when all are done and throws the first exception. A program that has a pool of threads passes it
/// here: threads that wait by spinning would take the cores from new ones.
using Share = std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;
/// Shares work out over `count` threads made for it, the caller's among them.
Share threads(int count = 2);

/// Reads tensors into memory the caller owns. Throws Error when the file shrank
/// or a read fails; the destinations are then undefined.
void read_tensors(const SafetensorsFile& file, std::span<const ReadRequest> requests,
                  const Share& share = threads());

/// The same, and returns the xxh3-128 (32 hex digits) of each tensor's bytes, hashed while they are
/// still in the cache. One tensor is read by one thread.
std::vector<std::string> read_tensors_hashed(const SafetensorsFile& file,
                                             std::span<const ReadRequest> requests,
                                             const Share& share = threads());

/// The xxh3-128 of all tensors, in the order of file.tensors().
std::vector<std::string> hash_tensors(const SafetensorsFile& file, const Share& share = threads());

}  // namespace plimsoll::checkpoint
