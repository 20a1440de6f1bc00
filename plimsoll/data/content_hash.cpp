#include "plimsoll/data/content_hash.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include <unistd.h>
#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/hash.h"

namespace plimsoll::data {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

json describe(const fs::path& path, const FileStamp& stamp) {
  return {{"path", path.string()},       {"size", stamp.size},   {"modified", stamp.modified_ns},
          {"changed", stamp.changed_ns}, {"inode", stamp.inode}, {"device", stamp.device}};
}

std::optional<std::string> recall(const fs::path& memo, const json& described) {
  std::error_code code;
  if (!fs::exists(memo, code)) return std::nullopt;
  try {
    const json stored = json::parse(read_file(memo));
    if (stored.at("file") == described) return stored.at("hash").get<std::string>();
  } catch (const std::exception&) {
    // Damaged: it is written again.
  }
  return std::nullopt;
}

std::string hash_bytes(const fs::path& path) {
  const FileDescriptor fd = open_for_reading(path);
  std::vector<char> buffer(std::size_t{1} << 20);
  Xxh3 hash;
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(
          fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(errno)));
    }
    if (got == 0) return hash.hex();
    hash.update({buffer.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace

FileStamp stamp_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw Error(
        fmt::format("cannot open {}: {}", path.string(), std::generic_category().message(errno)));
  }
  return {.size = info.st_size,
          .modified_ns = nanoseconds(info.st_mtim),
          .changed_ns = nanoseconds(info.st_ctim),
          .inode = info.st_ino,
          .device = info.st_dev};
}

ContentHash content_hash(const fs::path& path, const fs::path& memo_folder) {
  const fs::path absolute = fs::absolute(path);
  const FileStamp stamp = stamp_of(absolute);
  const json described = describe(absolute, stamp);
  const fs::path memo = memo_folder / (xxh3_hex(absolute.string()) + ".json");
  if (auto known = recall(memo, described)) return {*known, stamp};

  const std::string hash = hash_bytes(absolute);
  if (stamp_of(absolute) != stamp) {
    throw Error(fmt::format("{} changed while it was read", path.string()));
  }
  // A file written this very moment could be written again within one tick of the clock, with the
  // same stamp: do not remember those.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t age = std::chrono::nanoseconds(now).count() - stamp.changed_ns;
  if (age > 2000000000) {
    try {
      make_folders(memo_folder);
      write_file_atomic(memo, json{{"file", described}, {"hash", hash}}.dump());
    } catch (const Error&) {
      // A read-only cache: hashed again next time.
    }
  }
  return {hash, stamp};
}

}  // namespace plimsoll::data
