#include "plimsoll/model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "plimsoll/base/error.h"
#include "plimsoll/config/problems.h"

namespace plimsoll::model {
namespace {

// One line of the preset tables. Llama 3: ffn is int(8*dim/3), times a multiplier, rounded up.
struct Preset {
  const char* flavor;
  int64_t dim, layers, heads, kv_heads, head_dim, ffn, vocab;
  bool tied;
  int64_t rope_limit;
};

constexpr Preset kLlama3[] = {
    {"debugmodel", 256, 6, 16, 16, 16, 768, 2048, false, 131072},
    {"1B", 2048, 16, 32, 8, 64, 8192, 128256, true, 131072},
    {"3B", 3072, 28, 24, 8, 128, 8192, 128256, true, 131072},
    {"8B", 4096, 32, 32, 8, 128, 14336, 128256, false, 131072},
    {"70B", 8192, 80, 64, 8, 128, 28672, 128256, false, 131072},
    {"405B", 16384, 126, 128, 8, 128, 53248, 128256, false, 131072},
};

constexpr Preset kQwen3[] = {
    {"debugmodel", 256, 8, 16, 8, 128, 3072, 2048, true, 4096},
    {"0.6B", 1024, 28, 16, 8, 128, 3072, 151936, true, 40960},
    {"1.7B", 2048, 28, 16, 8, 128, 6144, 151936, true, 40960},
    {"4B", 2560, 36, 32, 8, 128, 9728, 151936, true, 40960},
    {"8B", 4096, 36, 32, 8, 128, 12288, 151936, false, 40960},
    {"14B", 5120, 40, 40, 8, 128, 17408, 151936, false, 40960},
    {"32B", 5120, 64, 64, 8, 128, 25600, 151936, false, 40960},
};

std::span<const Preset> presets(const std::string& architecture) {
  if (architecture == "llama3") return kLlama3;
  if (architecture == "qwen3") return kQwen3;
  return {};
}

}  // namespace

int64_t DecoderConfig::parameter_count() const {
  int64_t attention = dim * qkv_width() + q_width() * dim + (qk_norm ? 2 * head_dim : 0);
  int64_t block = attention + 3 * dim * ffn + 2 * dim;
  return (tied ? 1 : 2) * vocab * dim + layers * block + dim;
}

std::vector<std::string> flavors(const std::string& architecture) {
  std::vector<std::string> names;
  for (const Preset& p : presets(architecture)) names.push_back(p.flavor);
  return names;
}

DecoderConfig preset(const std::string& architecture, const std::string& flavor) {
  if (presets(architecture).empty()) {
    throw UsageError(fmt::format("model.architecture = \"{}\" is not known", architecture),
                     "known architectures: llama3, qwen3");
  }
  for (const Preset& p : presets(architecture)) {
    if (flavor != p.flavor) continue;
    DecoderConfig c;
    c.architecture = architecture;
    c.flavor = flavor;
    c.dim = p.dim;
    c.layers = p.layers;
    c.heads = p.heads;
    c.kv_heads = p.kv_heads;
    c.head_dim = p.head_dim;
    c.ffn = p.ffn;
    c.vocab = p.vocab;
    c.tied = p.tied;
    c.rope_limit = p.rope_limit;
    if (architecture == "llama3") {
      c.rope_scaling = RopeScaling{};
    } else {
      c.qk_norm = true;
      c.norm_eps = 1e-6;
      c.rope_theta = 1e6;
      c.rope = RopeConvention::kRotateHalf;
      c.init = InitKind::kQwen3;
    }
    return c;
  }
  throw UsageError(fmt::format("model.flavor = \"{}\" is not a {} preset", flavor, architecture),
                   fmt::format("known flavors: {}", fmt::join(flavors(architecture), ", ")));
}

void check(const DecoderConfig& c) {
  auto positive = [](const char* field, int64_t value) {
    if (value < 1) throw UsageError(fmt::format("model.{} = {}: must be at least 1", field, value));
  };
  positive("dim", c.dim);
  positive("layers", c.layers);
  positive("heads", c.heads);
  positive("kv_heads", c.kv_heads);
  positive("head_dim", c.head_dim);
  positive("ffn", c.ffn);
  positive("vocab", c.vocab);
  positive("rope_limit", c.rope_limit);
  if (c.heads % c.kv_heads != 0) {
    throw UsageError(fmt::format("model.heads = {} is not divisible by model.kv_heads = {}",
                                 c.heads, c.kv_heads),
                     "each key/value head serves the same number of query heads");
  }
  if (c.head_dim % 2 != 0) {
    throw UsageError(
        fmt::format("model.head_dim = {}: RoPE pairs elements, so it must be even", c.head_dim));
  }
}

namespace {
// Far above any model, and small enough that no product of two of them overflows.
constexpr int64_t kMaxWidth = 1 << 20, kMaxLayers = 1 << 16, kMaxRows = 1 << 28;
}  // namespace

void ModelConfig::describe(config::Fields& f) {
  f.choice("architecture", architecture, {"llama3", "qwen3"}, "decoder family");
  f.field("flavor", flavor, "preset of the family, e.g. debugmodel, 1B, 8B");
  const auto count = [&f](std::string_view name, std::optional<int64_t>& value, int64_t most,
                          std::string_view what) {
    f.field(name, value, fmt::format("{} (default: the preset's)", what)).at_least(1).at_most(most);
  };
  count("dim", dim, kMaxWidth, "width of the residual stream");
  count("layers", layers, kMaxLayers, "number of blocks");
  count("heads", heads, kMaxLayers, "query heads");
  count("kv_heads", kv_heads, kMaxLayers, "key/value heads");
  count("head_dim", head_dim, kMaxLayers, "width of a head");
  count("ffn", ffn, kMaxWidth, "hidden width of the feed-forward");
  count("vocab", vocab, kMaxRows, "entries of the embedding table");
  f.field("rope_theta", rope_theta, "RoPE base (default: the preset's)").above(0).at_most(1e30);
  count("rope_limit", rope_limit, kMaxRows, "longest position of the model");
  f.field("tied", tied, "whether the head is the embedding (default: the preset's)");
}

void ModelConfig::validate(config::Problems& p) const {
  try {
    check(resolve());
  } catch (const Error& e) {
    p.add("", e.hint().empty() ? e.what() : fmt::format("{} ({})", e.what(), e.hint()));
  }
}

DecoderConfig ModelConfig::resolve() const {
  DecoderConfig c = preset(architecture, flavor);
  auto apply = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  apply(dim, c.dim);
  apply(layers, c.layers);
  apply(heads, c.heads);
  apply(kv_heads, c.kv_heads);
  apply(head_dim, c.head_dim);
  apply(ffn, c.ffn);
  apply(vocab, c.vocab);
  apply(rope_theta, c.rope_theta);
  apply(rope_limit, c.rope_limit);
  apply(tied, c.tied);
  return c;
}

ModelConfig ModelConfig::filled() const {
  const DecoderConfig c = resolve();
  return {.architecture = architecture,
          .flavor = flavor,
          .dim = c.dim,
          .layers = c.layers,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .ffn = c.ffn,
          .vocab = c.vocab,
          .rope_limit = c.rope_limit,
          .rope_theta = c.rope_theta,
          .tied = c.tied};
}

}  // namespace plimsoll::model
