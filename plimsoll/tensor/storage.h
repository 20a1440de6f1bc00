#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace plimsoll::tensor {

/// The storage's address as an identity: equal exactly for tensors that are views of one storage
/// (also when it has no bytes or no memory, as on the meta device). Valid while the storage lives.
/// Null for an undefined tensor.
const void* storage_id(const at::Tensor& tensor);
/// Both are views of one storage, and the same elements in the same order.
bool same_view(const at::Tensor& a, const at::Tensor& b);
bool same_storage(const at::Tensor& a, const at::Tensor& b);
/// Bytes of the storages behind the tensors, each storage counted once.
std::int64_t unique_storage_bytes(std::span<const at::Tensor> tensors);

}  // namespace plimsoll::tensor
