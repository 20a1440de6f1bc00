#pragma once

// Inside this folder only: what all operators share.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/core.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/ops/heads.h"

namespace plimsoll::ops {

/// While one lives, calls go to the operators below autograd.
using BelowAutograd = at::AutoDispatchBelowADInplaceOrView;

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

template <class... Args>
[[noreturn]] void fail(const char* op, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format("{}: {}", op, fmt::format(format, std::forward<Args>(args)...)));
}

/// "bfloat16[3, 4]", for messages.
std::string describe(const at::Tensor& t);

/// A caller's undefined tensor stands for an absent one.
inline std::optional<at::Tensor> if_defined(const std::optional<at::Tensor>& t) {
  return t && t->defined() ? t : std::nullopt;
}

/// Throws unless t is fp32, bf16 or fp64.
void check_float(const char* op, const char* name, const at::Tensor& t);
/// Throws unless t is int32 or int64 and has one dimension of length n.
void check_ids(const char* op, const char* name, const at::Tensor& t, int64_t n);
void check_same(const char* op, const char* name, const at::Tensor& t, const at::Tensor& like);

/// Throws unless qkv is [N, layout.width()] and the layout makes sense.
void check_layout(const char* op, const at::Tensor& qkv, const HeadLayout& layout);

/// fp64 for fp64, else fp32: what sums and statistics of numbers of `dtype` are kept in.
inline at::ScalarType sum_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// Does autograd want a gradient for t in the call that is running?
bool needs_grad(const at::Tensor& t);
/// The dtype in which the gradient of t has to arrive.
at::ScalarType grad_dtype_of(const at::Tensor& t);

/// To be returned by a backward: when somebody records it (create_graph), differentiating the
/// result throws and names the operator; else the gradients as they are.
std::vector<at::Tensor> once_differentiable(const char* op, std::vector<at::Tensor> gradients);

/// How many tokens linear_cross_entropy takes at once.
int64_t loss_chunk_rows(int64_t n, int64_t vocabulary, int64_t asked);
/// Sum of the losses of logits[n, V] against targets[n]; with need_grad the logits become their
/// gradients.
using SoftmaxInPlace = at::Tensor (*)(at::Tensor& logits, const at::Tensor& targets,
                                      bool need_grad);
/// linear_cross_entropy_forward with this softmax.
std::tuple<at::Tensor, at::Tensor, at::Tensor> chunked_loss(
    const at::Tensor& h, const at::Tensor& weight, const std::optional<at::Tensor>& compute,
    const at::Tensor& targets, int64_t chunk_rows, bool need_dh,
    std::optional<at::ScalarType> grad_dtype, SoftmaxInPlace softmax);

}  // namespace plimsoll::ops
