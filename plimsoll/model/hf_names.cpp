#include "plimsoll/model/hf_names.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "plimsoll/base/error.h"

namespace plimsoll::model {
namespace {

at::Tensor swap_pairs(const at::Tensor& rows, int64_t heads, int64_t a, int64_t b) {
  std::vector<int64_t> split = {heads, a, b};
  for (int64_t d = 1; d < rows.dim(); ++d) split.push_back(rows.size(d));
  return rows.reshape(split).transpose(1, 2).reshape(rows.sizes());
}

}  // namespace

at::Tensor rows_from_rotate_half(const at::Tensor& rows, int64_t heads) {
  return swap_pairs(rows, heads, 2, rows.size(0) / heads / 2);
}

at::Tensor rows_to_rotate_half(const at::Tensor& rows, int64_t heads) {
  return swap_pairs(rows, heads, rows.size(0) / heads / 2, 2);
}

std::vector<HfPiece> hf_pieces(const DecoderConfig& c, const Parameter& parameter) {
  const std::string& name = parameter.name;
  const int64_t all = parameter.master.size(0);
  if (name == "tok_embeddings.weight") return {{"model.embed_tokens.weight", 0, all}};
  if (name == "norm.weight") return {{"model.norm.weight", 0, all}};
  if (name == "output.weight") return {{"lm_head.weight", 0, all}};

  const size_t dot = name.find('.', 7);  // behind "layers.N"
  const std::string layer = "model." + name.substr(0, dot + 1);
  const std::string inner = name.substr(dot + 1);
  if (inner == "attention.wqkv.weight") {
    const bool paired = c.rope == RopeConvention::kInterleaved;
    return {{layer + "self_attn.q_proj.weight", 0, c.q_width(), paired ? c.heads : 0},
            {layer + "self_attn.k_proj.weight", c.q_width(), c.kv_width(), paired ? c.kv_heads : 0},
            {layer + "self_attn.v_proj.weight", c.q_width() + c.kv_width(), c.kv_width()}};
  }
  if (inner == "feed_forward.w13.weight") {
    return {{layer + "mlp.gate_proj.weight", 0, c.ffn},
            {layer + "mlp.up_proj.weight", c.ffn, c.ffn}};
  }
  static const std::map<std::string, std::string> same = {
      {"attention.wo.weight", "self_attn.o_proj.weight"},
      {"attention.q_norm.weight", "self_attn.q_norm.weight"},
      {"attention.k_norm.weight", "self_attn.k_norm.weight"},
      {"feed_forward.w2.weight", "mlp.down_proj.weight"},
      {"attention_norm.weight", "input_layernorm.weight"},
      {"ffn_norm.weight", "post_attention_layernorm.weight"}};
  auto found = same.find(inner);
  if (found == same.end()) {
    throw Error(fmt::format("parameter {} has no Hugging Face name", name));
  }
  return {{layer + found->second, 0, all}};
}

std::vector<std::pair<std::string, at::Tensor>> to_hf(const DecoderConfig& config,
                                                      const Parameter& parameter,
                                                      const at::Tensor& values) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const HfPiece& piece : hf_pieces(config, parameter)) {
    at::Tensor rows = values.narrow(0, piece.first, piece.rows);
    if (piece.paired_heads > 0) rows = rows_to_rotate_half(rows, piece.paired_heads);
    out.emplace_back(piece.name, rows);
  }
  return out;
}

void load_hf(Decoder& decoder, const std::function<at::Tensor(const std::string&)>& get) {
  c10::NoGradGuard no_grad;
  for (Parameter* p : parameters(decoder)) {
    for (const HfPiece& piece : hf_pieces(decoder.config, *p)) {
      at::Tensor rows = get(piece.name);
      at::Tensor destination = p->master.narrow(0, piece.first, piece.rows);
      if (rows.sizes() != destination.sizes()) {
        throw Error(fmt::format("{} has shape [{}], the model wants [{}]", piece.name,
                                fmt::join(rows.sizes(), ", "),
                                fmt::join(destination.sizes(), ", ")));
      }
      if (piece.paired_heads > 0) rows = rows_from_rotate_half(rows, piece.paired_heads);
      destination.copy_(rows);
    }
  }
  refresh_compute(decoder);
}

}  // namespace plimsoll::model
