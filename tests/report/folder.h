#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace plimsoll::report {

/// A folder of its own for one test, removed with all that is in it.
struct Folder {
  Folder() {
    static std::atomic<int> count{0};
    path = std::filesystem::temp_directory_path() /
           ("plimsoll_report_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directory(path);
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace plimsoll::report
