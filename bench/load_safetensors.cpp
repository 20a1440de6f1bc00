// The C++ side of load_vs_safetensors.py; one measurement per process.
//   load_safetensors make PATH BYTES   writes a model-like file of about BYTES
//   load_safetensors read PATH         loads it into tensors whose pages are all touched, prints
//                                      the seconds from opening the file to the last byte in place
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/checkpoint.h"

namespace {

using namespace plimsoll::checkpoint;

// One big embedding and layers of a few matrices and small vectors, as models have them.
void make(const char* path, std::int64_t bytes) {
  std::vector<NamedTensor> tensors;
  const auto add = [&](std::string name, std::int64_t rows, std::int64_t columns) {
    const at::Tensor bits = at::empty({rows, columns}, at::kShort);
    auto* data = bits.mutable_data_ptr<std::int16_t>();
    for (std::int64_t i = 0; i < bits.numel(); ++i) data[i] = static_cast<std::int16_t>(i * 40503);
    tensors.push_back({std::move(name), bits.view(at::kBFloat16)});
    bytes -= rows * columns * 2;
  };
  const std::int64_t width = bytes >= (64 << 20) ? 1024 : 128;
  add("embedding", std::max<std::int64_t>(1, bytes / 5 / width / 2), width);
  for (int layer = 0; bytes > 0; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    for (const char* name : {"q", "k", "v", "o"}) add(prefix + name, width, width);
    for (const char* name : {"gate", "up", "down"}) add(prefix + name, width, 3 * width);
    for (const char* name : {"norm1", "norm2"}) add(prefix + name, 1, width);
  }
  save_safetensors(path, tensors);
}

double read(const char* path) {
  std::vector<NamedTensor> places;
  {
    const SafetensorsFile file(path);
    for (const TensorInfo& info : file.tensors()) {
      places.push_back({info.name, at::full(info.shape, 1, to_scalar_type(info.dtype))});
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const SafetensorsFile file(path);  // still open at the end, as the peer's is
  load_safetensors(file, places);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const NamedTensor& place : places) {
    const auto expected = file.bytes(file.at(place.name));
    if (std::memcmp(place.tensor.const_data_ptr(), expected.data(), expected.size()) != 0) {
      throw plimsoll::Error("wrong bytes in " + place.name);
    }
  }
  return seconds.count();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (command == "make" && argc == 4) {
      make(argv[2], std::atoll(argv[3]));
    } else if (command == "read" && argc == 3) {
      fmt::print("{:.6f}\n", read(argv[2]));
    } else {
      fmt::print(stderr, "usage: load_safetensors make PATH BYTES | read PATH\n");
      return 2;
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
