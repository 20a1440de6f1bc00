#include "plimsoll/trainer/session.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"

namespace plimsoll::trainer {
namespace {

std::vector<checkpoint::NamedTensor> optimizer_tensors(const optim::AdamW& optimizer) {
  std::vector<checkpoint::NamedTensor> out;
  for (auto& [name, tensor] : optimizer.state()) out.push_back({name, tensor});
  return out;
}

data::StreamConfig stream_config(const RunConfig& config) {
  return {.tokens_per_batch = config.train.tokens_per_batch,
          .max_context = config.train.max_context,
          .packing = data::parse_packing(config.data.packing),
          .shuffle = config.data.shuffle,
          .seed = static_cast<uint64_t>(config.run.seed),
          .repeat = config.data.repeat};
}

const nlohmann::json& state_member(const checkpoint::Loaded& saved, const char* key) {
  if (!saved.state().is_object() || !saved.state().contains(key)) {
    throw Error(fmt::format("{}: state.json has no \"{}\"", saved.path().string(), key));
  }
  return saved.state().at(key);
}

}  // namespace

std::string changes_since(const checkpoint::Loaded& saved, const RunConfig& now,
                          std::string_view prefix) {
  const std::string where = saved.path().string();
  const nlohmann::json& toml = state_member(saved, "config");
  if (!toml.is_string()) {
    throw Error(fmt::format("{}: state.json: \"config\" is not a text", where));
  }
  RunConfig before;
  RunConfig current = now;
  config::Fields fields = config::describe(before);
  try {
    config::load({where, toml.get<std::string>()}, {}, fields);
  } catch (const Error& e) {
    throw Error(fmt::format("the recipe saved in {} cannot be read: {}", where, e.what()));
  }
  // A number of the preset is the same whether the recipe says it or not.
  before.model = before.model.filled();
  current.model = current.model.filled();
  std::string lines;
  for (const config::Difference& d : config::compare(before, current)) {
    if (d.may_change || !d.key.starts_with(prefix)) continue;
    lines +=
        fmt::format("{}{}: {} in the checkpoint, {} now", lines.empty() ? "" : "\n", d.key,
                    d.before.empty() ? "unset" : d.before, d.after.empty() ? "unset" : d.after);
  }
  return lines;
}

at::ScalarType compute_dtype(const std::string& precision, c10::Device device) {
  if (precision == "bf16") return at::kBFloat16;
  if (precision == "fp32") return at::kFloat;
  if (device.type() != c10::kCPU) return at::kBFloat16;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return at::kBFloat16;
#endif
  return at::kFloat;
}

model::Decoder build_decoder(const RunConfig& config, c10::Device device, at::ScalarType compute) {
  model::Decoder decoder =
      model::build(config.model.resolve(), {.device = device,
                                            .compute = compute,
                                            .max_context = config.train.max_context,
                                            .seed = static_cast<uint64_t>(config.run.seed)});
  if (config.train.gradients == "bf16") {
    for (model::Parameter* p : model::parameters(decoder)) p->master.set_grad_dtype(at::kBFloat16);
  }
  return decoder;
}

void check_vocabulary(const text::Tokenizer& tokenizer, const model::DecoderConfig& model) {
  if (tokenizer.size() > model.vocab) {
    throw UsageError(
        fmt::format("the tokenizer has ids up to {}, the model {} rows (model.vocab)",
                    tokenizer.size() - 1, model.vocab),
        fmt::format("set model.vocab to at least {}, or take another tokenizer", tokenizer.size()));
  }
}

data::Corpus open_corpus(const RunConfig& config, const text::Tokenizer& tokenizer,
                         const data::OnBuildProgress& progress) {
  data::TokenizerView view;
  view.encode = [&tokenizer](std::string_view text, std::vector<int32_t>& ids) {
    ids.clear();
    tokenizer.encode(text, ids, text::SpecialTokens::kAsText);
  };
  view.fingerprint = tokenizer.fingerprint();
  view.vocab_size = tokenizer.size();
  view.bos = tokenizer.bos().value_or(-1);
  view.eos = tokenizer.eos().value_or(-1);
  return data::open_corpus(config.data, view, static_cast<uint64_t>(config.run.seed), progress);
}

std::unique_ptr<Session> open_session(const RunConfig& config, c10::Device device,
                                      const data::OnBuildProgress& progress) {
  text::Tokenizer tokenizer = text::Tokenizer::load(config.data.tokenizer);
  check_vocabulary(tokenizer, config.model.resolve());
  data::Corpus corpus = open_corpus(config, tokenizer, progress);
  const at::ScalarType compute = compute_dtype(config.train.precision, device);
  auto session =
      std::make_unique<Session>(Session{.config = config,
                                        .device = device,
                                        .compute = compute,
                                        .tokenizer = std::move(tokenizer),
                                        .corpus = std::move(corpus),
                                        .decoder = build_decoder(config, device, compute)});
  session->optimizer =
      std::make_unique<optim::AdamW>(model::parameters(session->decoder), config.optim);
  session->batches = std::make_unique<data::Prefetcher>(
      data::BatchStream(session->corpus.train, stream_config(config)), config.data.prefetch);
  return session;
}

std::vector<checkpoint::NamedTensor> model_tensors(const model::Decoder& decoder) {
  std::vector<checkpoint::NamedTensor> out;
  for (const model::Parameter* p : model::parameters(decoder)) {
    out.push_back({p->name, p->master.detach()});
  }
  return out;
}

checkpoint::Snapshot snapshot(const Session& session) {
  checkpoint::Snapshot out;
  out.step = session.progress.step;
  out.groups["model"] = model_tensors(session.decoder);
  out.groups["optimizer"] = optimizer_tensors(*session.optimizer);
  RunConfig config = session.config;
  out.state = {{"tokens_seen", session.progress.tokens_seen},
               {"data", data::to_json(session.batches->state())},
               {"config", config::to_toml(config)}};
  return out;
}

void restore(Session& session, const checkpoint::Loaded& saved) {
  const std::string where = saved.path().string();
  const std::string changes = changes_since(saved, session.config);
  const auto refuse = [&](const std::string& tensors) {
    throw UsageError(
        tensors + "the recipe changed in keys that a resumed run may not change:\n" + changes,
        "restore these values, or start a new run");
  };
  c10::NoGradGuard no_grad;
  try {
    saved.load_into("model", model_tensors(session.decoder));
  } catch (const Error& e) {
    // For another model the first differing shape says something as well.
    if (changes.empty()) throw;
    refuse(std::string(e.what()) + "\n");
  }
  if (!changes.empty()) refuse("");
  saved.load_into("optimizer", optimizer_tensors(*session.optimizer));
  model::refresh_compute(session.decoder);

  const nlohmann::json& tokens_seen = state_member(saved, "tokens_seen");
  if (!tokens_seen.is_number_integer()) {
    throw Error(fmt::format("{}: state.json: \"tokens_seen\" is not a number", where));
  }
  data::BatchStream stream(session.corpus.train, stream_config(session.config));
  try {
    stream.restore(data::stream_state_from_json(state_member(saved, "data")));
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", where, e.what()), e.hint());
  }
  session.batches =
      std::make_unique<data::Prefetcher>(std::move(stream), session.config.data.prefetch);
  session.progress = {.step = saved.step(), .tokens_seen = tokens_seen.get<int64_t>()};
}

}  // namespace plimsoll::trainer
