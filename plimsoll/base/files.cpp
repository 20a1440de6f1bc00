#include "plimsoll/base/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "plimsoll/base/error.h"

namespace plimsoll {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw Error(fmt::format("cannot read {}", path.string()));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path temp = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  std::ofstream file(temp, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temp, path, error);
  if (!file || error) throw Error(fmt::format("cannot write {}", path.string()));
}

}  // namespace plimsoll
