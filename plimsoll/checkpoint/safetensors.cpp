#include "plimsoll/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/durable.h"
#include "plimsoll/checkpoint/quote.h"

namespace plimsoll::checkpoint {
namespace {

// Copied from the map at a time; when it is hashed first, it is still in the cache then. Also what
// a thread takes at a time when nothing is hashed.
constexpr std::uint64_t kChunk = 2 << 20;
// Below this a system call costs less than the page faults of a map.
constexpr std::uint64_t kSmall = 256 << 10;

// memcpy that leaves the destination out of the cache: it is not read first to be overwritten,
// which saves a third of the memory traffic of a large copy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const std::size_t head = std::min(bytes, (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* in = reinterpret_cast<const __m128i*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  _mm_sfence();
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

// Brings pages of a map in. False where the kernel cannot say so, or they cannot be had (the file
// shrank, the disk failed): touching them would then kill the process.
bool populate(const std::byte* from, std::uint64_t bytes) {
#if defined(MADV_POPULATE_READ)
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(from) % page;
  return ::madvise(const_cast<std::byte*>(from - before), bytes + before, MADV_POPULATE_READ) == 0;
#else
  return false;
#endif
}

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
    const std::byte* from = map_ + at;
    std::uint64_t got = std::min(bytes, kChunk);
    if (bytes >= kSmall && populate(from, got)) {
      if (hash) hash->update({reinterpret_cast<const char*>(from), got});
      stream_copy(out, from, got);
    } else {
      got = read_some(at, got, out);
      if (hash) hash->update({reinterpret_cast<const char*>(out), got});
    }
    out += got;
    at += got;
    bytes -= got;
  }
}

// At least one byte, by a system call.
std::uint64_t SafetensorsFile::read_some(std::uint64_t at, std::uint64_t bytes, void* out) const {
  for (;;) {
    const ssize_t got = ::pread(file_.get(), out, bytes, static_cast<off_t>(at));
    if (got > 0) return static_cast<std::uint64_t>(got);
    if (got == 0) {
      throw Error(fmt::format("{}: the file shrank while it was read: expected {} bytes, found {}",
                              path_.string(), file_bytes_, at));
    }
    if (errno != EINTR) throw_system_error("read", path_, errno);
  }
}

Share threads(int count) {
  return [count](std::size_t parts, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    const auto loop = [&] {
      try {
        for (std::size_t i = next++; i < parts; i = next++) work(i);
      } catch (...) {
        next = parts;
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> others;
      const auto wanted = std::min(parts, static_cast<std::size_t>(std::max(count, 1)));
      for (std::size_t i = 1; i < wanted; ++i) others.emplace_back(loop);
      loop();
    }
    if (error) std::rethrow_exception(error);
  };
}

namespace {

std::string hash_tensor(const SafetensorsFile& file, const TensorInfo& info) {
  Xxh3 hash;
  // Pieces below kSmall: a buffer that stays in the cache.
  constexpr std::uint64_t kBuffer = kSmall / 2;
  std::vector<std::byte> buffer(std::min(kBuffer, info.bytes()));
  for (std::uint64_t at = 0; at < info.bytes(); at += kBuffer) {
    file.read(info.begin + at, std::min(kBuffer, info.bytes() - at), buffer.data(), &hash);
  }
  return hash.hex();
}

}  // namespace

void read_tensors(const SafetensorsFile& file, std::span<const ReadRequest> requests,
                  const Share& share) {
  struct Piece {
    std::uint64_t begin;
    std::uint64_t bytes;
    std::byte* destination;
  };
  std::vector<Piece> pieces;
  for (const ReadRequest& request : requests) {
    for (std::uint64_t at = 0; at < request.info->bytes(); at += kChunk) {
      pieces.push_back({request.info->begin + at, std::min(kChunk, request.info->bytes() - at),
                        static_cast<std::byte*>(request.destination) + at});
    }
  }
  share(pieces.size(), [&](std::size_t i) {
    file.read(pieces[i].begin, pieces[i].bytes, pieces[i].destination, nullptr);
  });
}

std::vector<std::string> read_tensors_hashed(const SafetensorsFile& file,
                                             std::span<const ReadRequest> requests,
                                             const Share& share) {
  std::vector<std::string> hashes(requests.size());
  // Big ones first, so that no thread is left with one at the end.
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return requests[a].info->bytes() > requests[b].info->bytes();
  });
  share(order.size(), [&](std::size_t i) {
    const ReadRequest& request = requests[order[i]];
    Xxh3 hash;
    file.read(request.info->begin, request.info->bytes(), request.destination, &hash);
    hashes[order[i]] = hash.hex();
  });
  return hashes;
}

std::vector<std::string> hash_tensors(const SafetensorsFile& file, const Share& share) {
  std::vector<std::string> hashes(file.tensors().size());
  share(hashes.size(), [&](std::size_t i) { hashes[i] = hash_tensor(file, file.tensors()[i]); });
  return hashes;
}

}  // namespace plimsoll::checkpoint
