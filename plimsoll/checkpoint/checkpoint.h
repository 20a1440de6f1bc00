#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/checkpoint/folder.h"

namespace plimsoll::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// What a checkpoint holds. Group names become file names (letters, digits, '_', '-', '.').
struct Snapshot {
  std::int64_t step = 0;  // optimizer steps done, whatever the gradient accumulation
  std::map<std::string, std::vector<NamedTensor>> groups;
  nlohmann::json state;
};

/// A deep copy on the host that shares no storage with `live`, also where that is on the host
/// already: dense, in logical order. When it returns, `live` may change.
Snapshot stage(const Snapshot& live);
/// The same into `staged`, reusing its tensors where name, shape and dtype match.
void stage_into(const Snapshot& live, Snapshot& staged);

/// Writes `<root>/step-<step>` (see folder.h for layout, gates and errors) and returns its path.
/// Tensors that are not dense on the host are copied first.
std::filesystem::path save(const std::filesystem::path& root, const Snapshot& snapshot,
                           const Gate& gate = {});

/// An open, complete checkpoint. Reading is thread-safe.
class Loaded {
 public:
  const std::filesystem::path& path() const { return contents_.path; }
  std::int64_t step() const { return contents_.step; }
  const nlohmann::json& state() const { return contents_.state; }
  bool has(const std::string& group) const { return contents_.groups.contains(group); }
  /// Names, shapes and dtypes of a group, in order of the file. Throws Error for an unknown group.
  const std::vector<TensorInfo>& tensors(const std::string& group) const;

  /// Fills `destination` (any device, any strides) from a group. Names, shapes and dtypes must be
  /// exactly those of the file: otherwise an Error names the first tensor that differs, in order of
  /// `destination`, with both shapes or dtypes, or the first missing or unexpected name; nothing is
  /// then written. Throws Error when a checksum does not match; the destination is then undefined.
  void load_into(const std::string& group, const std::vector<NamedTensor>& destination) const;
  /// All tensors of a group, newly allocated on the host.
  std::vector<NamedTensor> load(const std::string& group) const;

 private:
  friend Loaded open_checkpoint(const std::filesystem::path& path);
  const FolderContents::Group& group(const std::string& name) const;
  FolderContents contents_;
};

/// Opens `<root>/step-N`. Throws Error when it is not complete.
Loaded open_checkpoint(const std::filesystem::path& path);

/// Fills `destination` from any safetensors file (a Hugging Face one, say), without checksums; same
/// rules as Loaded::load_into, but the file may hold more when `allow_unexpected`.
void load_safetensors(const SafetensorsFile& file, const std::vector<NamedTensor>& destination,
                      bool allow_unexpected = false);
/// Writes tensors of any device as one safetensors file.
void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Between the format's element types and torch's. Throws Error for one the other does not have.
at::ScalarType to_scalar_type(DType dtype);
DType to_dtype(at::ScalarType type);

}  // namespace plimsoll::checkpoint
