// The header of a safetensors file, taken two ways: the input as the start of a file, and the input
// as the JSON of a header with some data behind it, so that mutations do not all break the length.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/safetensors.h"

namespace {

using plimsoll::checkpoint::parse_header;

void check(const std::string& file, std::uint64_t file_bytes) {
  try {
    const auto header = parse_header(std::as_bytes(std::span(file)), file_bytes, "fuzz");
    // What is accepted tiles the file exactly.
    std::uint64_t at = 0;
    for (const auto& info : header.tensors) {
      const auto bytes = plimsoll::checkpoint::tensor_bytes(info.dtype, info.shape);
      if (info.begin != at || !bytes || *bytes != info.bytes()) std::abort();
      at = info.end;
    }
    if (header.data_begin + at != file_bytes) std::abort();
  } catch (const plimsoll::Error& e) {
    const std::string what = e.what();
    if (what.find('\n') != what.npos || what.size() > 2000) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  check(input, input.size());
  std::string framed(8, '\0');
  const std::uint64_t length = size;
  std::memcpy(framed.data(), &length, sizeof(length));
  framed += input;
  for (const std::uint64_t data_bytes : {0, 8, 64}) check(framed, framed.size() + data_bytes);
  return 0;
}
