#include "plimsoll/text/tokenizer_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"

namespace plimsoll::text {

namespace {

using Json = nlohmann::ordered_json;

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json pre_tokenizer(Splitter pattern) {
  if (pattern == Splitter::kGpt2) return byte_level(false, true);
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern_of(pattern)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false, false)})}};
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& bpe) {
  Json added = Json::array();
  for (size_t id = 0; id < bpe.config.special_tokens.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", bpe.config.special_tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  // Vocabulary and merges by hand: ordered_json looks each key up by a walk.
  std::string vocabulary, merges;
  for (size_t id = 0; id < bpe.tokens.size(); ++id) {
    vocabulary += fmt::format("{}\n      {}: {}", id ? "," : "", Json(bpe.tokens[id]).dump(), id);
  }
  for (size_t i = 0; i < bpe.merges.size(); ++i) {
    merges += fmt::format("{}\n      [{}, {}]", i ? "," : "", Json(bpe.merges[i].first).dump(),
                          Json(bpe.merges[i].second).dump());
  }
  std::string out = "{\n";
  const auto field = [&](std::string_view name, const Json& value) {
    out += fmt::format("  \"{}\": {},\n", name, value.dump());
  };
  field("version", "1.0");
  field("truncation", nullptr);
  field("padding", nullptr);
  field("added_tokens", added);
  field("normalizer", nullptr);
  field("pre_tokenizer", pre_tokenizer(bpe.config.pattern));
  field("post_processor", nullptr);
  field("decoder", byte_level(true, true));
  out += fmt::format(
      R"(  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {{{}
    }},
    "merges": [{}{}]
  }}
}}
)",
      vocabulary, merges, merges.empty() ? "" : "\n    ");
  return out;
}

std::string tokenizer_config_json(const TrainedBpe& bpe) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  const auto token = [&](const char* key, const std::optional<std::string>& value) {
    if (value) config[key] = *value;
  };
  token("bos_token", bpe.config.bos_token);
  token("eos_token", bpe.config.eos_token);
  token("pad_token", bpe.config.pad_token);
  return config.dump(2) + "\n";
}

void write_tokenizer(const TrainedBpe& bpe, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(fmt::format("cannot make folder {}: {}", folder.string(), error.message()));
  }
  write_file_atomic(folder / "tokenizer_config.json", tokenizer_config_json(bpe));
  write_file_atomic(folder / "tokenizer.json", tokenizer_json(bpe));
}

}  // namespace plimsoll::text
