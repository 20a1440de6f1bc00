#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace plimsoll::cli {

/// The last line of every description and the exit code that goes with it: an empty `problem` means
/// whole. `problem` is one line.
int say_whole(const std::string& problem);

/// Each describes a thing on stdout and returns the exit code: 0 whole, 1 not. What cannot be read
/// at all throws Error.

/// A run folder: model, data, how far it came, losses, checkpoints (all data of them is read).
int inspect_run(const std::filesystem::path& folder);
/// A folder of checkpoints.
int inspect_checkpoints(const std::filesystem::path& root);
/// state.json, DONE, metrics.jsonl, validation.jsonl, an event file or a recipe; nothing where the
/// file is none of them.
std::optional<int> inspect_run_file(const std::filesystem::path& file);
/// Any other file: text, JSONL or JSON.
int inspect_data(const std::filesystem::path& file);

}  // namespace plimsoll::cli
