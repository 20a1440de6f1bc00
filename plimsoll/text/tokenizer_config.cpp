#include "plimsoll/text/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plimsoll/text/json_node.h"

namespace plimsoll::text {

namespace {

bool flag(const JsonNode& object, std::string_view key) {
  const auto node = object.find(key);
  return node && node->boolean();
}

void add_missing_tokens(const JsonNode& node, TokenizerSpec& spec) {
  std::unordered_set<std::string> known;
  for (const AddedToken& token : spec.added_tokens) known.insert(token.content);
  std::vector<AddedToken> missing;
  for (const auto& [key, item] : node.members()) {
    AddedToken token;
    token.content = item.at("content").string();
    if (token.content.empty()) item.fail("content is empty");
    if (!known.insert(token.content).second) continue;
    const bool digits = !key.empty() && key.size() <= 7 &&
                        key.find_first_not_of("0123456789") == std::string_view::npos;
    if (!digits) item.fail("the key must be a token id");
    token.id = std::stoi(std::string(key));
    token.single_word = flag(item, "single_word");
    token.lstrip = flag(item, "lstrip");
    token.rstrip = flag(item, "rstrip");
    token.normalized = flag(item, "normalized");
    token.special = flag(item, "special");
    missing.push_back(std::move(token));
  }
  std::sort(missing.begin(), missing.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  int32_t next = next_added_id(spec);
  for (AddedToken& token : missing) {
    const int64_t found = spec.vocabulary.find(token.content);
    const int32_t id = found >= 0 ? spec.ids[static_cast<size_t>(found)] : next;
    if (id != token.id) {
      node.fail_at(fmt::format(".{}", token.id),
                   fmt::format("{} would get id {} beside this tokenizer.json",
                               in_quotes(token.content), id));
    }
    next = std::max(next, id + 1);
    spec.added_tokens.push_back(std::move(token));
  }
}

std::optional<int32_t> special_token(const JsonNode& root, std::string_view key,
                                     const TokenizerSpec& spec) {
  const auto node = root.find(key);
  if (!node) return std::nullopt;
  const JsonNode content = node->raw().is_object() ? node->at("content") : *node;
  const int32_t id = find_token(spec, content.string());
  if (id < 0) {
    content.fail(fmt::format("{} is not in the vocabulary of tokenizer.json", content.shown()));
  }
  return id;
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& origin,
                                      TokenizerSpec& spec) {
  const JsonDocument document(json, origin, kMaxConfigBytes);
  const JsonNode root(document);
  if (const auto added = root.find("added_tokens_decoder")) add_missing_tokens(*added, spec);
  return {special_token(root, "bos_token", spec), special_token(root, "eos_token", spec),
          special_token(root, "pad_token", spec)};
}

}  // namespace plimsoll::text
