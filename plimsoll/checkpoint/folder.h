#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/checkpoint/safetensors.h"
#include "plimsoll/checkpoint/safetensors_writer.h"

namespace plimsoll::checkpoint {

/// A native checkpoint is a folder `<root>/step-N/`:
///   <group>.safetensors  one file per group of tensors ("model", "optimizer", ...)
///   state.json           step, the caller's state, and for each file its size and the xxh3-128 of
///                        each tensor
///   DONE                 empty, written last
/// It is written as `<root>/step-N.tmp-<pid>` and renamed when whole and on disk, so a folder named
/// step-N is whole unless something damaged it later. Nothing here needs torch.

/// Called at named points of a save, in this order: "created", then "wrote <group>" for each group,
/// "before done", "before rename", "renamed" (AsyncSaver adds "staged" before them and "saved"
/// after pruning). For tests that force an order or a crash; an exception thrown here fails the
/// save.
using Gate = std::function<void(std::string_view point)>;

/// Writes `<root>/step-<step>` and returns its path; creates root. An existing folder of that name
/// is replaced atomically. Throws Error (no space, no permission, folder removed meanwhile, ...)
/// naming the step of the work and the file; the temporary folder is then removed where possible
/// and all earlier checkpoints are as they were.
std::filesystem::path write_folder(const std::filesystem::path& root, std::int64_t step,
                                   const std::map<std::string, std::vector<TensorView>>& groups,
                                   const nlohmann::json& state, const Gate& gate = {});

/// What state.json says, its own checksum checked.
struct State {
  std::int64_t step = 0;
  nlohmann::json files;  // name -> {bytes, xxh3}, not checked against the files
  nlohmann::json state;
};
/// Throws Error that names the file and what is wrong with it.
State read_state(const std::filesystem::path& state_json);

/// What state.json says, checked against the files' sizes and headers but not their data.
struct FolderContents {
  struct Group {
    SafetensorsFile file;
    std::map<std::string, std::string, std::less<>> xxh3;  // by tensor name
  };
  std::filesystem::path path;
  std::int64_t step = 0;
  nlohmann::json state;
  std::map<std::string, Group> groups;
};

/// Opens a checkpoint folder; throws Error that names the file and what is wrong with it: DONE
/// missing, a file missing, cut, or of another size, tensor names that differ from state.json.
FolderContents read_folder(const std::filesystem::path& path);

/// Hashes all data of one file and throws Error naming the first tensor whose xxh3 differs.
void verify_data(const FolderContents& contents, const std::string& group);

/// Hashes one tensor file and compares it with what the state.json beside it says of it. False when
/// there is none of ours that lists it; throws Error like read_folder and verify_data.
bool verify_file(const std::filesystem::path& file);

/// Throws Error when `found` is not the checksum that the checkpoint keeps for a tensor it has.
void check_hash(const FolderContents::Group& group, const std::string& tensor,
                const std::string& found);

}  // namespace plimsoll::checkpoint
