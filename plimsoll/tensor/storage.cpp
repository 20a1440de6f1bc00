#include "plimsoll/tensor/storage.h"

#include <unordered_set>

namespace plimsoll::tensor {

const void* storage_id(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.storage().unsafeGetStorageImpl();
}

bool same_storage(const at::Tensor& a, const at::Tensor& b) {
  const void* id = storage_id(a);
  return id != nullptr && id == storage_id(b);
}

bool same_view(const at::Tensor& a, const at::Tensor& b) {
  return same_storage(a, b) && a.storage_offset() == b.storage_offset() &&
         a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

std::int64_t unique_storage_bytes(std::span<const at::Tensor> tensors) {
  std::unordered_set<const void*> seen;
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    const void* id = storage_id(tensor);
    if (id && seen.insert(id).second) bytes += static_cast<std::int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

}  // namespace plimsoll::tensor
