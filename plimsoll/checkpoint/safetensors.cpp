#include "plimsoll/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/durable.h"
#include "plimsoll/checkpoint/quote.h"

namespace plimsoll::checkpoint {
namespace {

// One read: few system calls, and what was read is still in the cache when it is hashed.
constexpr std::uint64_t kChunk = 1 << 20;
// What a thread takes at a time when nothing is hashed.
constexpr std::uint64_t kPiece = 8 << 20;

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  FileDescriptor file = open_for_reading(path_);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("look at", path_, errno);
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (file_bytes_ > 0) {
    void* map = ::mmap(nullptr, file_bytes_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (map == MAP_FAILED) throw_system_error("map", path_, errno);
    map_ = static_cast<const std::byte*>(map);
  }
  try {
    header_ = parse_header({map_, file_bytes_}, file_bytes_, path_.string());
    by_name_.resize(header_.tensors.size());
    std::iota(by_name_.begin(), by_name_.end(), 0u);
    std::sort(by_name_.begin(), by_name_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return header_.tensors[a].name < header_.tensors[b].name;
    });
  } catch (...) {
    if (map_) ::munmap(const_cast<std::byte*>(map_), file_bytes_);
    throw;
  }
  file_ = std::move(file);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept {
  *this = std::move(other);
}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(file_bytes_, other.file_bytes_);
  std::swap(map_, other.map_);
  std::swap(header_, other.header_);
  std::swap(by_name_, other.by_name_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (map_) ::munmap(const_cast<std::byte*>(map_), file_bytes_);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::uint32_t index, std::string_view n) { return header_.tensors[index].name < n; });
  if (found == by_name_.end() || header_.tensors[*found].name != name) return nullptr;
  return &header_.tensors[*found];
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* info = find(name);
  if (!info) throw Error(fmt::format("{}: no tensor {}", path_.string(), quote(name)));
  return *info;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& info) const {
  return {map_ + header_.data_begin + info.begin, info.bytes()};
}

void SafetensorsFile::read(std::uint64_t begin, std::uint64_t bytes, void* destination,
                           Xxh3* hash) const {
  auto* out = static_cast<std::byte*>(destination);
  std::uint64_t at = header_.data_begin + begin;
  while (bytes > 0) {
    const ssize_t got = ::pread(file_.get(), out, std::min(bytes, kChunk), static_cast<off_t>(at));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw_system_error("read", path_, errno);
    }
    if (got == 0) {
      throw Error(fmt::format("{}: the file shrank while it was read: expected {} bytes, found {}",
                              path_.string(), file_bytes_, at));
    }
    if (hash) hash->update({reinterpret_cast<const char*>(out), static_cast<std::size_t>(got)});
    out += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

namespace {

// Runs work(0) .. work(count - 1) on `threads` threads and throws the first exception.
template <typename Work>
void share_out(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const auto wanted =
        std::min<std::size_t>(count, static_cast<std::size_t>(std::max(threads, 1)));
    for (std::size_t i = 1; i < wanted; ++i) others.emplace_back(loop);
    loop();
  }
  if (error) std::rethrow_exception(error);
}

std::string hash_tensor(const SafetensorsFile& file, const TensorInfo& info) {
  Xxh3 hash;
  std::vector<std::byte> buffer(std::min(kChunk, info.bytes()));
  for (std::uint64_t at = 0; at < info.bytes(); at += kChunk) {
    file.read(info.begin + at, std::min(kChunk, info.bytes() - at), buffer.data(), &hash);
  }
  return hash.hex();
}

}  // namespace

void read_tensors(const SafetensorsFile& file, std::span<const ReadRequest> requests, int threads) {
  struct Piece {
    std::uint64_t begin;
    std::uint64_t bytes;
    std::byte* destination;
  };
  std::vector<Piece> pieces;
  for (const ReadRequest& request : requests) {
    for (std::uint64_t at = 0; at < request.info->bytes(); at += kPiece) {
      pieces.push_back({request.info->begin + at, std::min(kPiece, request.info->bytes() - at),
                        static_cast<std::byte*>(request.destination) + at});
    }
  }
  share_out(pieces.size(), threads, [&](std::size_t i) {
    file.read(pieces[i].begin, pieces[i].bytes, pieces[i].destination, nullptr);
  });
}

std::vector<std::string> read_tensors_hashed(const SafetensorsFile& file,
                                             std::span<const ReadRequest> requests, int threads) {
  std::vector<std::string> hashes(requests.size());
  // Big ones first, so that no thread is left with one at the end.
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return requests[a].info->bytes() > requests[b].info->bytes();
  });
  share_out(order.size(), threads, [&](std::size_t i) {
    const ReadRequest& request = requests[order[i]];
    Xxh3 hash;
    file.read(request.info->begin, request.info->bytes(), request.destination, &hash);
    hashes[order[i]] = hash.hex();
  });
  return hashes;
}

std::vector<std::string> hash_tensors(const SafetensorsFile& file, int threads) {
  std::vector<std::string> hashes(file.tensors().size());
  share_out(hashes.size(), threads,
            [&](std::size_t i) { hashes[i] = hash_tensor(file, file.tensors()[i]); });
  return hashes;
}

}  // namespace plimsoll::checkpoint
