#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll {

/// Whole file as bytes. Error names the file and why.
std::string read_file(const std::filesystem::path& path);

/// Replaces `path` by `bytes`, whole or not at all.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

}  // namespace plimsoll
