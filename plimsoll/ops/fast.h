#pragma once

// The CPU forms: tensors in, tensors out, the work split over threads and done by the row kernels
// of cpu/. Same arguments and results as the plain forms.

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace plimsoll::ops::fast {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight,
                     const OptionalTensor& compute);
at::Tensor embedding_backward(const at::Tensor& dy, const at::Tensor& ids, int64_t vocabulary,
                              at::ScalarType grad_dtype);

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                            double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                            const at::Tensor& residual,
                                                            const at::Tensor& weight, double eps);
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& weight,
                                                     const at::Tensor& rstd,
                                                     const OptionalTensor& d_sum,
                                                     std::optional<at::ScalarType> grad_dtype);

at::Tensor rope(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& positions,
                int64_t heads, int64_t kv_heads, int64_t head_dim, bool interleaved);
at::Tensor rope_backward(const at::Tensor& dy, const at::Tensor& table, const at::Tensor& positions,
                         int64_t heads, int64_t kv_heads, int64_t head_dim, bool interleaved);

std::tuple<at::Tensor, at::Tensor> qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight,
                                           const at::Tensor& k_weight, int64_t heads,
                                           int64_t kv_heads, int64_t head_dim, double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor> qk_norm_backward(
    const at::Tensor& dy, const at::Tensor& qkv, const at::Tensor& q_weight,
    const at::Tensor& k_weight, const at::Tensor& rstd, int64_t heads, int64_t kv_heads,
    int64_t head_dim, std::optional<at::ScalarType> grad_dtype);

at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up);

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& qkv, const at::Tensor& documents,
                                             int64_t heads, int64_t kv_heads, int64_t head_dim,
                                             double scale);
at::Tensor attention_backward(const at::Tensor& d_o, const at::Tensor& qkv, const at::Tensor& o,
                              const at::Tensor& lse, const at::Tensor& documents, int64_t heads,
                              int64_t kv_heads, int64_t head_dim, double scale);

std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_forward(
    const at::Tensor& h, const at::Tensor& weight, const OptionalTensor& compute,
    const at::Tensor& targets, int64_t chunk_rows, bool need_dh,
    std::optional<at::ScalarType> grad_dtype);

void adamw_(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
            at::TensorList exp_avg_sq, at::TensorList compute, const at::Tensor& lr,
            const at::Tensor& step, double beta1, double beta2, double eps, double weight_decay,
            const OptionalTensor& grad_scale, const OptionalTensor& found_inf);
at::Tensor grad_norm(at::TensorList grads);

}  // namespace plimsoll::ops::fast
