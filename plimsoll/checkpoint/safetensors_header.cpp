// The header of a safetensors file: strict JSON by a SAX handler that holds no more than one path
// of nesting, then the checks that the tensors tile the file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/quote.h"
#include "plimsoll/checkpoint/safetensors.h"

namespace plimsoll::checkpoint {
namespace {

constexpr std::size_t kMaxDims = 64;
constexpr std::uint64_t kMaxDim = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void fail(std::string_view file, const std::string& what, std::string hint = {}) {
  throw Error(fmt::format("{}: {}", file, what), std::move(hint));
}

class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string_view file) : file_(file) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return wrong("null"); }
  bool boolean(bool value) override { return wrong(value ? "true" : "false"); }
  bool binary(binary_t&) override { return wrong("binary data"); }
  // Only negative numbers come this way.
  bool number_integer(number_integer_t value) override { return wrong(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return wrong(quote(text)); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > kMaxDim) return wrong(fmt::format("{}", value));
      if (info_.shape.size() == kMaxDims) {
        fail(file_, fmt::format("{}: shape has more than {} dimensions", tensor(), kMaxDims));
      }
      info_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_ == 0 ? info_.begin : info_.end) = value;
      ++offsets_;
    } else {
      return wrong(fmt::format("{}", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(key_, value).second) {
        fail(file_, fmt::format("__metadata__ has {} twice", quote(key_)));
      }
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      const auto dtype = dtype_from_name(value);
      if (!dtype) fail(file_, fmt::format("{}: unknown dtype {}", tensor(), quote(value)));
      info_.dtype = *dtype;
    } else {
      return wrong("the string " + quote(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == "__metadata__") {
      if (seen_metadata_) fail(file_, "the header has __metadata__ twice");
      seen_metadata_ = true;
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      info_ = {};
      info_.name = key_;
      offsets_ = 0;
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    } else {
      return wrong("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    key_ = key;
    if (place_ != Place::kTensor) return true;
    bool* seen = key == "dtype"          ? &seen_dtype_
                 : key == "shape"        ? &seen_shape_
                 : key == "data_offsets" ? &seen_offsets_
                                         : nullptr;
    if (!seen) fail(file_, fmt::format("{}: unknown key {}", tensor(), quote(key)));
    if (*seen) fail(file_, fmt::format("{}: key {} appears twice", tensor(), quote(key)));
    *seen = true;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      const char* missing = !seen_dtype_     ? "dtype"
                            : !seen_shape_   ? "shape"
                            : !seen_offsets_ ? "data_offsets"
                                             : nullptr;
      if (missing) fail(file_, fmt::format("{}: key \"{}\" is missing", tensor(), missing));
      header_.tensors.push_back(std::move(info_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return wrong("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      fail(file_,
           fmt::format("{}: data_offsets must be two numbers, found {}", tensor(), offsets_));
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    // What the library says repeats the position and quotes the last token, which may be long.
    std::string_view what = e.what();
    if (const auto colon = what.find(": "); colon != what.npos) what.remove_prefix(colon + 2);
    fail(file_, fmt::format("the header is not valid JSON at byte {}: {}", position + 8,
                            printable(what, 200)));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  std::string tensor() const { return "tensor " + quote(info_.name); }

  [[noreturn]] bool wrong(const std::string& found) {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd:
        fail(file_, fmt::format("the header must be a JSON object, found {}", found));
      case Place::kTop:
        fail(file_, fmt::format("{}: must be an object, found {}", "entry " + quote(key_), found));
      case Place::kMetadata:
        fail(file_, fmt::format("__metadata__ {}: must be a string, found {}", quote(key_), found));
      case Place::kTensor:
        fail(file_, fmt::format("{}: {} must be {}, found {}", tensor(), key_,
                                key_ == "dtype" ? "a string" : "a list of whole numbers", found));
      case Place::kShape:
        fail(file_, fmt::format("{}: a dimension must be a whole number from 0 to {}, found {}",
                                tensor(), kMaxDim, found));
      case Place::kOffsets:
        fail(file_, fmt::format("{}: data_offsets must be two whole numbers, found {}", tensor(),
                                offsets_ == 2 ? "a third value " + found : found));
    }
    throw Error("unreachable");
  }

  std::string_view file_;
  SafetensorsHeader header_;
  Place place_ = Place::kStart;
  std::string key_;
  TensorInfo info_;
  int offsets_ = 0;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
  bool seen_metadata_ = false;
};

void check_tensors(SafetensorsHeader& header, std::uint64_t data_bytes, std::string_view file) {
  auto& tensors = header.tensors;
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice != tensors.end()) {
    fail(file, fmt::format("tensor {} appears twice in the header", quote(twice->name)));
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& info : tensors) {
    const std::string name = "tensor " + quote(info.name);
    if (info.begin > info.end) {
      fail(file, fmt::format("{}: data_offsets [{}, {}] end before they begin", name, info.begin,
                             info.end));
    }
    const auto expected = tensor_bytes(info.dtype, info.shape);
    if (!expected) {
      fail(file, fmt::format("{}: {} {} has no size in whole bytes below 2^63", name,
                             dtype_name(info.dtype), shape_text(info.shape)));
    }
    if (info.bytes() != *expected) {
      fail(file, fmt::format("{}: {} {} takes {} bytes, but data_offsets [{}, {}] hold {}", name,
                             dtype_name(info.dtype), shape_text(info.shape), *expected, info.begin,
                             info.end, info.bytes()));
    }
    if (info.begin != at) {
      const std::string after = before ? "after tensor " + quote(before->name) : "at the start";
      fail(file, info.begin > at
                     ? fmt::format("{}: data begins at {}, expected {}: a hole of {} bytes {}",
                                   name, info.begin, at, info.begin - at, after)
                     : fmt::format("{}: data begins at {}, expected {}: it overlaps tensor {}",
                                   name, info.begin, at, quote(before->name)));
    }
    at = info.end;
    before = &info;
  }
  const std::uint64_t expected = header.data_begin + at;
  const std::uint64_t found = header.data_begin + data_bytes;
  if (at > data_bytes) {
    fail(file,
         fmt::format("the file is cut short: expected {} bytes, found {} (last tensor {})",
                     expected, found, quote(before->name)),
         "copy or download the file again");
  }
  if (at < data_bytes) {
    fail(file, fmt::format("{} bytes follow the last tensor: expected a file of {} bytes, found {}",
                           data_bytes - at, expected, found));
  }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  // Zero dimensions do not excuse the others: strides are computed from them.
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(dim), &product)) {
      return std::nullopt;
    }
  }
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(dtype_bits(dtype)), &bits)) {
    return std::nullopt;
  }
  if (bits % 8 != 0 && !empty) return std::nullopt;
  return empty ? 0 : bits / 8;
}

SafetensorsHeader parse_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                               std::string_view file) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes) || file_bytes < sizeof(header_bytes)) {
    fail(file, fmt::format("not a safetensors file: expected at least 8 bytes, found {}",
                           std::min<std::uint64_t>(bytes.size(), file_bytes)));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    fail(file, "a git-lfs pointer, not the file itself", "run `git lfs pull` where it came from");
  }
  if (header_bytes > kMaxHeaderBytes) {
    fail(file,
         fmt::format("header of {} bytes, at most {} are accepted", header_bytes, kMaxHeaderBytes),
         "is this a safetensors file?");
  }
  const std::uint64_t available = std::min<std::uint64_t>(bytes.size(), file_bytes);
  if (header_bytes > available - 8) {
    fail(file,
         fmt::format("the file is cut short: expected a header of {} bytes, found {}", header_bytes,
                     available - 8),
         "copy or download the file again");
  }
  const std::string_view json = text.substr(8, header_bytes);
  if (!json.starts_with('{')) fail(file, "the header does not start with '{'");
  // The JSON library takes a zero byte for the end of its input.
  if (const auto zero = json.find('\0'); zero != json.npos) {
    fail(file, fmt::format("the header is not valid JSON at byte {}: a zero byte", zero + 8));
  }
  HeaderHandler handler(file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
  SafetensorsHeader header = handler.take();
  header.data_begin = 8 + header_bytes;
  check_tensors(header, file_bytes - header.data_begin, file);
  return header;
}

}  // namespace plimsoll::checkpoint
