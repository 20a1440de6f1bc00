#include "plimsoll/base/byte_source.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"

namespace plimsoll {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const std::filesystem::path& path)
      : fd_(open_for_reading(path)), name_(path.string()) {}

  std::size_t read(char* out, std::size_t size) override {
    while (true) {
      const ssize_t got = ::read(fd_.get(), out, size);
      if (got >= 0) {
        offset_ += static_cast<std::uint64_t>(got);
        return static_cast<std::size_t>(got);
      }
      if (errno == EINTR) continue;
      throw Error(fmt::format("{}: cannot read at byte {}: {}", name_, offset_,
                              std::generic_category().message(errno)));
    }
  }
  const std::string& name() const override { return name_; }

  /// The first bytes, without consuming them.
  std::string_view peek(std::array<char, 4>& bytes) const {
    const ssize_t got = ::pread(fd_.get(), bytes.data(), bytes.size(), 0);
    return {bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }

 private:
  FileDescriptor fd_;
  std::string name_;
  std::uint64_t offset_ = 0;
};

/// Compressed bytes from a source, a chunk at a time.
struct Input {
  explicit Input(std::unique_ptr<ByteSource> from) : source(std::move(from)), buffer(kChunk) {}

  /// True if there are bytes left to take, after reading more where needed.
  bool fill() {
    if (at == end) {
      base += end;
      at = 0;
      end = source->read(buffer.data(), buffer.size());
    }
    return at < end;
  }
  [[noreturn]] void fail(std::string_view format, std::string_view why) const {
    throw Error(
        fmt::format("{}: damaged {} data at byte {}: {}", source->name(), format, base + at, why),
        "fetch or compress the file again");
  }

  std::unique_ptr<ByteSource> source;
  std::vector<char> buffer;
  std::size_t at = 0;
  std::size_t end = 0;
  std::uint64_t base = 0;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> from) : input_(std::move(from)) {
    // 16: gzip headers only.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(char* out, std::size_t size) override {
    const std::size_t wanted = std::min<std::size_t>(size, std::size_t{1} << 30);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out == wanted && wanted > 0) {
      if (!input_.fill()) {
        if (between_members_) return 0;
        input_.fail("gzip", "the file ends in the middle of the stream");
      }
      if (between_members_ && all_zero_padding()) return 0;
      between_members_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(input_.buffer.data() + input_.at);
      stream_.avail_in = static_cast<uInt>(input_.end - input_.at);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      input_.at = input_.end - stream_.avail_in;
      if (result == Z_STREAM_END) {
        between_members_ = true;
        inflateReset(&stream_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        input_.fail("gzip", stream_.msg != nullptr ? stream_.msg : zError(result));
      }
    }
    return wanted - stream_.avail_out;
  }
  const std::string& name() const override { return input_.source->name(); }

 private:
  /// Tapes and some writers pad the end with zeros; gzip itself ignores them.
  bool all_zero_padding() {
    if (!started_) {
      started_ = true;
      return false;
    }
    while (input_.fill()) {
      if (input_.buffer[input_.at] != 0) return false;
      ++input_.at;
    }
    return true;
  }

  Input input_;
  z_stream stream_{};
  bool between_members_ = true;
  bool started_ = false;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> from)
      : input_(std::move(from)), stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
    // A frame may ask for a window of gigabytes; 128 MiB is what zstd itself accepts unasked.
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, 27);
  }

  std::size_t read(char* out, std::size_t size) override {
    ZSTD_outBuffer to{out, size, 0};
    while (to.pos == 0 && size > 0) {
      const bool more = input_.fill();
      // Without input there may still be decoded bytes inside the stream.
      if (!more && between_frames_) return 0;
      ZSTD_inBuffer from{input_.buffer.data(), input_.end, input_.at};
      const std::size_t result = ZSTD_decompressStream(stream_.get(), &to, &from);
      input_.at = from.pos;
      if (ZSTD_isError(result)) input_.fail("zstd", ZSTD_getErrorName(result));
      between_frames_ = result == 0;
      if (!more && to.pos == 0 && !between_frames_) {
        input_.fail("zstd", "the file ends in the middle of the stream");
      }
    }
    return to.pos;
  }
  const std::string& name() const override { return input_.source->name(); }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const noexcept { ZSTD_freeDStream(stream); }
  };
  Input input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool between_frames_ = true;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  std::size_t read(char* out, std::size_t size) override {
    const std::size_t count = std::min(size, bytes_.size());
    if (count > 0) std::memcpy(out, bytes_.data(), count);
    bytes_.remove_prefix(count);
    return count;
  }
  const std::string& name() const override { return name_; }

 private:
  std::string_view bytes_;
  std::string name_;
};

}  // namespace

std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path) {
  auto plain = std::make_unique<PlainSource>(path);
  std::array<char, 4> bytes{};
  const std::string_view magic = plain->peek(bytes);
  if (magic.starts_with("\x1f\x8b")) return std::make_unique<GzipSource>(std::move(plain));
  // A data frame, or one of the sixteen kinds of skippable frame.
  const bool skippable =
      magic.size() == 4 && (magic[0] & '\xf0') == '\x50' && magic.substr(1) == "\x2a\x4d\x18";
  if (skippable || magic == "\x28\xb5\x2f\xfd") {
    return std::make_unique<ZstdSource>(std::move(plain));
  }
  return plain;
}

std::unique_ptr<ByteSource> memory_source(std::string_view bytes, std::string name) {
  return std::make_unique<MemorySource>(bytes, std::move(name));
}

}  // namespace plimsoll
