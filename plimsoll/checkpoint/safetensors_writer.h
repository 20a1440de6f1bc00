#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/dtype.h"

namespace plimsoll::checkpoint {

/// Memory to be written as one tensor: dense, row-major, little-endian. Not owned.
struct TensorView {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  std::size_t bytes = 0;  // must be what dtype and shape say
};

/// Writes a safetensors file: under a temporary name beside `path`, fsync, then rename, so that
/// `path` is either what it was or the whole new file. The same tensors always give the same bytes:
/// they are laid out by falling element size, then by name, whatever their order here, which keeps
/// each one aligned to its element (the Python library does the same). Throws Error that names the
/// step (create, write, sync, rename), the file and the system's reason; the temporary is removed.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

struct WrittenFile {
  std::uint64_t bytes = 0;
  std::map<std::string, std::string> xxh3;  // 32 hex digits of each tensor's bytes, by name
};
/// The same straight under its final name: for a folder that is renamed as a whole. Fails when the
/// file exists; a file begun and not finished stays.
WrittenFile write_safetensors_direct(const std::filesystem::path& path,
                                     std::span<const TensorView> tensors,
                                     const std::map<std::string, std::string>& metadata = {});

}  // namespace plimsoll::checkpoint
