#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/safetensors.h"

namespace plimsoll::checkpoint {

/// What a path holds, for `plimsoll inspect`.
struct Inspection {
  enum class Kind { kNothing, kSafetensors, kCheckpoint, kRoot };
  struct Group {
    std::string name;  // file name
    std::uint64_t file_bytes = 0;
    std::vector<TensorInfo> tensors;
    std::map<std::string, std::string> metadata;
  };
  Kind kind = Kind::kNothing;
  std::filesystem::path path;
  std::vector<Group> groups;
  std::optional<std::int64_t> step;  // of a checkpoint
  nlohmann::json state;
  std::vector<std::int64_t> steps;  // complete ones, of a root
  bool whole = false;
  bool hashed = false;  // the data has the checksums that were written with it
  std::string problem;  // why it is not whole, one line
};

/// Looks at a safetensors file, a checkpoint folder or a folder of checkpoints. With `data`, hashes
/// all tensors of a checkpoint, or of one file of it (seconds for gigabytes). A damaged file is a
/// result, not an exception.
Inspection inspect(const std::filesystem::path& path, bool data = true);

/// The same as text of several lines, ending with "whole: yes" or "whole: no, <why>". At most
/// `max_tensors` tensors of each file are listed.
std::string describe(const Inspection& inspection, std::size_t max_tensors = 40);
std::string describe(const std::filesystem::path& path);
/// The values of a state, one member a line; long texts and lists are cut short.
std::string describe_state(const nlohmann::json& state);

}  // namespace plimsoll::checkpoint
