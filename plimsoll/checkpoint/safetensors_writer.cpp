#include "plimsoll/checkpoint/safetensors_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <system_error>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/checkpoint/durable.h"
#include "plimsoll/checkpoint/quote.h"
#include "plimsoll/checkpoint/safetensors.h"

namespace plimsoll::checkpoint {
namespace fs = std::filesystem;
namespace {

// Small enough that what was hashed is still in the cache when it is written.
constexpr std::size_t kChunk = 1 << 20;

std::vector<const TensorView*> in_file_order(const fs::path& path,
                                             std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  order.reserve(tensors.size());
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorView* a, const TensorView* b) { return a->name < b->name; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const TensorView& tensor = *order[i];
    const std::string where = fmt::format("{}: tensor {}", path.string(), quote(tensor.name));
    if (i > 0 && tensor.name == order[i - 1]->name) throw Error(where + " is given twice");
    if (tensor.name == "__metadata__") throw Error(where + ": the format reserves this name");
    const auto expected = tensor_bytes(tensor.dtype, tensor.shape);
    if (!expected || *expected != tensor.bytes) {
      throw Error(fmt::format("{}: {} {} takes {} bytes, {} were given", where,
                              dtype_name(tensor.dtype), shape_text(tensor.shape),
                              expected ? fmt::format("{}", *expected) : "too many", tensor.bytes));
    }
    if (tensor.bytes > 0 && tensor.data == nullptr) throw Error(where + " has no memory");
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return dtype_bits(a->dtype) > dtype_bits(b->dtype);
  });
  return order;
}

std::string make_header(const fs::path& path, std::span<const TensorView* const> order,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  // Not through operator[]: finding a key of an ordered object takes time linear in its size.
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  entries.reserve(order.size() + 1);
  if (!metadata.empty()) entries.emplace_back("__metadata__", metadata);
  std::uint64_t at = 0;
  for (const TensorView* tensor : order) {
    entries.emplace_back(tensor->name,
                         nlohmann::ordered_json{{"dtype", dtype_name(tensor->dtype)},
                                                {"shape", tensor->shape},
                                                {"data_offsets", {at, at + tensor->bytes}}});
    if (__builtin_add_overflow(at, tensor->bytes, &at)) {
      throw Error(path.string() + ": the sizes of the tensors overflow");
    }
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(path.string() + ": a tensor name or metadata entry is not valid UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw Error(fmt::format("{}: header of {} bytes, at most {} are accepted", path.string(),
                            text.size(), kMaxHeaderBytes));
  }
  return text;
}

}  // namespace

WrittenFile write_safetensors_direct(const fs::path& path, std::span<const TensorView> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  const auto order = in_file_order(path, tensors);
  const std::string header = make_header(path, order, metadata);
  WrittenFile written;
  const std::uint64_t header_bytes = header.size();
  NewFile file(path);
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(header.data(), header.size());
  written.bytes = sizeof(header_bytes) + header.size();
  for (const TensorView* tensor : order) {
    Xxh3 hash;
    auto* data = static_cast<const char*>(tensor->data);
    for (std::size_t at = 0; at < tensor->bytes; at += kChunk) {
      const std::size_t bytes = std::min(kChunk, tensor->bytes - at);
      hash.update({data + at, bytes});
      file.write(data + at, bytes);
    }
    written.xxh3.emplace(tensor->name, hash.hex());
    written.bytes += tensor->bytes;
  }
  file.finish();
  return written;
}

void write_safetensors(const fs::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  static std::atomic<unsigned> count{0};
  const fs::path temporary = fmt::format("{}.tmp-{}-{}", path.string(), ::getpid(), count++);
  try {
    write_safetensors_direct(temporary, tensors, metadata);
    rename_path(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

}  // namespace plimsoll::checkpoint
