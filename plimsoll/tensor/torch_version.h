#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>
#include <utility>

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

/// Everything that depends on torch's version, and nothing else. Tested with 2.13.0; cmake refuses
/// others unless PLIMSOLL_UNTESTED_TORCH is set.
namespace plimsoll::tensor {

/// The version compiled against, e.g. "2.13.0". base/ and the command line compare it with the one
/// that is loaded.
inline constexpr const char* kTorchVersion = TORCH_VERSION;

/// Owner of an autograd node: std::shared_ptr<Node> up to 2.12, c10::intrusive_ptr<Node> from 2.13.
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

}  // namespace plimsoll::tensor
