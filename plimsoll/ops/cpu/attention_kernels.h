#pragma once

// Causal attention of one document in fp32, whatever T is (Bf16 or float): no torch here.
//
// Scores are kept as [keys, queries], so that maxima, sums and everything else that belongs to a
// query stay in one lane of a vector; only the gradients of keys and values turn them round.

#include <cstdint>
#include <vector>

#include "plimsoll/ops/cpu/numbers.h"

namespace plimsoll::ops::cpu {

/// Is there a kernel for heads of this many numbers?
inline bool attention_fits(int64_t head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

/// One query head (forward) or one key head with its group of query heads (backward) of one
/// document of `length` tokens. Pointers are to the first token's head; strides count numbers from
/// token to token.
template <class T>
struct AttentionForward {
  int64_t head_dim;
  int64_t length;
  float scale;
  const T* q;
  const T* k;
  const T* v;
  int64_t stride;  // of q, k and v
  T* o;
  int64_t o_stride;
  float* lse;  // one for each token
};
/// Queries from .. to - 1 (from is a multiple of kAttentionBlock).
void attention_forward(const AttentionForward<Bf16>& a, int64_t from, int64_t to);
void attention_forward(const AttentionForward<float>& a, int64_t from, int64_t to);

template <class T>
struct AttentionBackward {
  int64_t head_dim;
  int64_t length;
  int64_t group;  // query heads; they lie side by side in q, o, d_o and dq
  float scale;
  const T* q;
  const T* k;
  const T* v;
  int64_t stride;
  const T* o;
  int64_t o_stride;
  const T* d_o;
  int64_t d_o_stride;
  const float* lse;    // of the first query head
  int64_t lse_stride;  // from head to head
  T* dq;
  T* dk;
  T* dv;
  int64_t d_stride;
};
void attention_backward(const AttentionBackward<Bf16>& a);
void attention_backward(const AttentionBackward<float>& a);

/// For tests: from now on use vectors of at most so many floats (16, 8 or 4) though the processor
/// has wider ones.
void limit_attention_width(int lanes);

constexpr int64_t kAttentionBlock = 64;  // queries, and keys, worked on at once

}  // namespace plimsoll::ops::cpu
