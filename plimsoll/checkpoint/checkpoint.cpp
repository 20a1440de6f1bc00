#include "plimsoll/checkpoint/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/quote.h"

namespace plimsoll::checkpoint {
namespace fs = std::filesystem;

namespace {

// Host memory for tensors that are not read straight into place, at any one time.
constexpr std::uint64_t kMaxBounceBytes = 256u << 20;

constexpr std::pair<DType, at::ScalarType> kTypes[] = {
    {DType::F64, at::kDouble},
    {DType::F32, at::kFloat},
    {DType::F16, at::kHalf},
    {DType::BF16, at::kBFloat16},
    {DType::I64, at::kLong},
    {DType::I32, at::kInt},
    {DType::I16, at::kShort},
    {DType::I8, at::kChar},
    {DType::U64, at::kUInt64},
    {DType::U32, at::kUInt32},
    {DType::U16, at::kUInt16},
    {DType::U8, at::kByte},
    {DType::BOOL, at::kBool},
    {DType::F8_E4M3, at::ScalarType::Float8_e4m3fn},
    {DType::F8_E5M2, at::ScalarType::Float8_e5m2},
    {DType::F8_E8M0, at::ScalarType::Float8_e8m0fnu},
    {DType::F8_E4M3FNUZ, at::ScalarType::Float8_e4m3fnuz},
    {DType::F8_E5M2FNUZ, at::ScalarType::Float8_e5m2fnuz},
    {DType::C64, at::ScalarType::ComplexFloat},
};

void check_storable(const std::string& name, const at::Tensor& tensor) {
  const std::string where = "tensor " + quote(name);
  if (!tensor.defined()) throw Error(where + " is undefined");
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    throw Error(where + " is not a plain dense tensor");
  }
  if (tensor.is_meta()) throw Error(where + " has no memory (meta device)");
  to_dtype(tensor.scalar_type());
}

// Its memory is what the file holds.
bool dense_on_host(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_conj() &&
         !tensor.is_neg();
}

at::Tensor host_copy(const at::Tensor& tensor, at::Tensor reuse = {}) {
  const c10::NoGradGuard no_grad;
  if (!reuse.defined() || reuse.scalar_type() != tensor.scalar_type() ||
      reuse.sizes() != tensor.sizes()) {
    reuse = at::empty(tensor.sizes(), at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()));
  }
  return reuse.copy_(tensor);
}

TensorView view_of(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  return {named.name, to_dtype(tensor.scalar_type()), tensor.sizes().vec(), tensor.const_data_ptr(),
          tensor.nbytes()};
}

// Views of `tensors`; copies of those that are not dense on the host go to `copies`.
std::vector<TensorView> views_of(const std::vector<NamedTensor>& tensors,
                                 std::vector<NamedTensor>& copies) {
  std::vector<TensorView> views;
  copies.reserve(copies.size() + tensors.size());
  for (const NamedTensor& named : tensors) {
    check_storable(named.name, named.tensor);
    if (dense_on_host(named.tensor)) {
      views.push_back(view_of(named));
    } else {
      copies.push_back({named.name, host_copy(named.tensor)});
      views.push_back(view_of(copies.back()));
    }
  }
  return views;
}

// Over torch's own threads, which may still be spinning from the last operator.
void share_over_torch(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  at::parallel_for(0, at::get_num_threads(), 1, [&](std::int64_t, std::int64_t) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  });
}

std::string kind_text(DType dtype, std::span<const std::int64_t> shape) {
  return fmt::format("{} {}", dtype_name(dtype), shape_text(shape));
}

void check_match(const SafetensorsFile& file, const std::vector<NamedTensor>& destination,
                 bool allow_unexpected) {
  const char* hint = "the file is of another model: compare the shapes in the recipe";
  std::set<std::string_view> wanted;
  for (const NamedTensor& named : destination) {
    check_storable(named.name, named.tensor);
    const std::string where = fmt::format("{}: tensor {}", file.path().string(), quote(named.name));
    if (!wanted.insert(named.name).second) throw Error(where + " is asked for twice");
    const TensorInfo* info = file.find(named.name);
    if (!info) throw Error(where + " is missing, the model needs it", hint);
    const DType dtype = to_dtype(named.tensor.scalar_type());
    const auto sizes = named.tensor.sizes();
    if (info->dtype != dtype ||
        !std::equal(sizes.begin(), sizes.end(), info->shape.begin(), info->shape.end())) {
      throw Error(fmt::format("{}: the model has {}, the file {}", where,
                              kind_text(dtype, {sizes.data(), sizes.size()}),
                              kind_text(info->dtype, info->shape)),
                  hint);
    }
  }
  if (allow_unexpected) return;
  for (const TensorInfo& info : file.tensors()) {
    if (!wanted.contains(info.name)) {
      throw Error(fmt::format("{}: tensor {} is unexpected, the model has no such name",
                              file.path().string(), quote(info.name)),
                  hint);
    }
  }
}

// Reads in batches that hold at most kMaxBounceBytes of host copies. `group` (may be null) has the
// checksums.
class Filler {
 public:
  Filler(const SafetensorsFile& file, const FolderContents::Group* group)
      : file_(file), group_(group) {}

  void add(const NamedTensor& named) {
    const TensorInfo* info = file_.find(named.name);
    at::Tensor tensor = named.tensor;
    const void* memory = dense_on_host(tensor) ? tensor.const_data_ptr() : nullptr;
    const NamedTensor* twin = nullptr;
    if (memory && info->bytes() > 0) {
      const auto [found, fresh] = in_place_.emplace(memory, &named);
      if (!fresh) twin = found->second;
    }
    if (memory && !twin) {
      requests_.push_back({info, tensor.mutable_data_ptr()});
    } else {
      // Two names for one memory: both must hold the same, so the second is compared, not written.
      bounces_.push_back(
          {&named, twin,
           at::empty(tensor.sizes(), at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()))});
      bounce_bytes_ += info->bytes();
      requests_.push_back({info, bounces_.back().host.mutable_data_ptr()});
    }
    if (bounce_bytes_ >= kMaxBounceBytes) flush();
  }

  void flush() {
    if (group_) {
      const auto hashes = read_tensors_hashed(file_, requests_, share_over_torch);
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        check_hash(*group_, requests_[i].info->name, hashes[i]);
      }
    } else {
      read_tensors(file_, requests_, share_over_torch);
    }
    for (const Bounce& bounce : bounces_) finish(bounce);
    requests_.clear();
    bounces_.clear();
    bounce_bytes_ = 0;
  }

 private:
  struct Bounce {
    const NamedTensor* named;
    const NamedTensor* twin;
    at::Tensor host;
  };

  void finish(const Bounce& bounce) const {
    at::Tensor tensor = bounce.named->tensor;
    if (!bounce.twin) {
      tensor.copy_(bounce.host);
    } else if (std::memcmp(tensor.const_data_ptr(), bounce.host.const_data_ptr(),
                           bounce.host.nbytes()) != 0) {
      throw Error(fmt::format("{}: tensors {} and {} are one in the model but differ in the file",
                              file_.path().string(), quote(bounce.twin->name),
                              quote(bounce.named->name)));
    }
  }

  const SafetensorsFile& file_;
  const FolderContents::Group* group_;
  std::vector<ReadRequest> requests_;
  std::vector<Bounce> bounces_;
  std::uint64_t bounce_bytes_ = 0;
  std::unordered_map<const void*, const NamedTensor*> in_place_;
};

void fill(const SafetensorsFile& file, const FolderContents::Group* group,
          const std::vector<NamedTensor>& destination, bool allow_unexpected) {
  check_match(file, destination, allow_unexpected);
  const c10::NoGradGuard no_grad;
  Filler filler(file, group);
  for (const NamedTensor& named : destination) filler.add(named);
  filler.flush();
  // Written behind autograd's back: whoever saved one of them for backward must be told.
  for (const NamedTensor& named : destination) {
    if (!named.tensor.is_inference()) named.tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

at::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  throw Error(fmt::format("torch has no element type for {}", dtype_name(dtype)));
}

DType to_dtype(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw Error(
      fmt::format("the safetensors format has no element type for {}", c10::toString(type)));
}

Snapshot stage(const Snapshot& live) {
  Snapshot staged;
  stage_into(live, staged);
  return staged;
}

void stage_into(const Snapshot& live, Snapshot& staged) {
  for (const auto& [name, tensors] : live.groups) {
    for (const NamedTensor& named : tensors) check_storable(named.name, named.tensor);
  }
  std::map<std::string, std::vector<NamedTensor>> groups;
  for (const auto& [name, tensors] : live.groups) {
    std::unordered_map<std::string_view, at::Tensor> reusable;
    if (const auto old = staged.groups.find(name); old != staged.groups.end()) {
      for (const NamedTensor& named : old->second) reusable.emplace(named.name, named.tensor);
    }
    std::vector<NamedTensor>& out = groups[name];
    out.reserve(tensors.size());
    for (const NamedTensor& named : tensors) {
      // Taken out: a name given twice must not get one memory twice.
      const auto node = reusable.extract(named.name);
      out.push_back({named.name, host_copy(named.tensor, node ? node.mapped() : at::Tensor())});
    }
  }
  staged.groups = std::move(groups);
  staged.step = live.step;
  staged.state = live.state;
}

fs::path save(const fs::path& root, const Snapshot& snapshot, const Gate& gate) {
  std::vector<NamedTensor> copies;
  std::map<std::string, std::vector<TensorView>> groups;
  for (const auto& [name, tensors] : snapshot.groups) {
    std::vector<NamedTensor> fresh;
    groups.emplace(name, views_of(tensors, fresh));
    copies.insert(copies.end(), fresh.begin(), fresh.end());
  }
  return write_folder(root, snapshot.step, groups, snapshot.state, gate);
}

Loaded open_checkpoint(const fs::path& path) {
  Loaded loaded;
  loaded.contents_ = read_folder(path);
  return loaded;
}

const FolderContents::Group& Loaded::group(const std::string& name) const {
  const auto found = contents_.groups.find(name);
  if (found == contents_.groups.end()) {
    throw Error(fmt::format("{}: the checkpoint has no {}.safetensors", path().string(), name));
  }
  return found->second;
}

const std::vector<TensorInfo>& Loaded::tensors(const std::string& name) const {
  return group(name).file.tensors();
}

void Loaded::load_into(const std::string& name, const std::vector<NamedTensor>& destination) const {
  const FolderContents::Group& from = group(name);
  fill(from.file, &from, destination, false);
}

std::vector<NamedTensor> Loaded::load(const std::string& name) const {
  std::vector<NamedTensor> out;
  for (const TensorInfo& info : tensors(name)) {
    out.push_back({info.name, at::empty(info.shape, at::TensorOptions(at::kCPU).dtype(
                                                        to_scalar_type(info.dtype)))});
  }
  load_into(name, out);
  return out;
}

void load_safetensors(const SafetensorsFile& file, const std::vector<NamedTensor>& destination,
                      bool allow_unexpected) {
  fill(file, nullptr, destination, allow_unexpected);
}

void save_safetensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> copies;
  write_safetensors(path, views_of(tensors, copies), metadata);
}

}  // namespace plimsoll::checkpoint
