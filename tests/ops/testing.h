#pragma once

// Helpers of the tests of operators.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace plimsoll::ops::testing {

/// Normal numbers from a generator of our own, so that a test does not depend on the order of
/// others.
at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype, uint64_t seed);
/// int64 in [0, limit).
at::Tensor random_ids(int64_t n, int64_t limit, uint64_t seed);
/// int32 offsets of documents of these lengths.
at::Tensor offsets(const std::vector<int64_t>& lengths);
/// 0, 1, ... inside each document.
at::Tensor positions_of(const std::vector<int64_t>& lengths);

using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Gradients of sum(outputs * fixed random weights) to `inputs` by autograd.
std::vector<at::Tensor> gradients(const Function& f, const std::vector<at::Tensor>& inputs);

/// The same against central differences; inputs are fp64. Returns the largest
/// |difference| / (1 + |gradient|) over all numbers of all inputs.
double gradcheck(const Function& f, const std::vector<at::Tensor>& inputs);

/// max |a - b| / max |b| in fp64 (0 for two empty tensors; infinity where b has other shape).
double relative_difference(const at::Tensor& a, const at::Tensor& b);

/// Equal dtype, shape and bits.
bool equal_bits(const at::Tensor& a, const at::Tensor& b);

/// What autograd saves while f runs: each tensor's bytes as the saved-tensor hooks see them.
std::vector<at::Tensor> saved_by(const std::function<at::Tensor()>& f);

}  // namespace plimsoll::ops::testing
