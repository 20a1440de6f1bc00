#include "plimsoll/text/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/text/json_node.h"

namespace plimsoll::text {

namespace {

// Not simdjson: these files often say model_max_length 1000000000000000019884624838656, which it
// refuses as a number.
using Json = nlohmann::json;

class Reader {
 public:
  Reader(const std::string& origin, TokenizerSpec& spec) : origin_(origin), spec_(spec) {}

  [[noreturn]] void fail(std::string_view path, const std::string& problem) const {
    throw Error(fmt::format("{}: {}: {}", origin_, path, problem));
  }

  // The member, or null where it is missing or null.
  static const Json* find(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  std::string text(const Json& object, const char* key, const std::string& path) const {
    const Json* value = find(object, key);
    if (!value || !value->is_string()) fail(path + "." + key, "must be a string");
    return value->get<std::string>();
  }

  bool flag(const Json& object, const char* key, const std::string& path) const {
    const Json* value = find(object, key);
    if (!value) return false;
    if (!value->is_boolean()) fail(path + "." + key, "must be true or false");
    return value->get<bool>();
  }

  void add_missing_tokens(const Json& decoder) const {
    if (!decoder.is_object()) fail("added_tokens_decoder", "must be an object");
    std::unordered_set<std::string> known;
    for (const AddedToken& token : spec_.added_tokens) known.insert(token.content);
    std::vector<AddedToken> missing;
    for (const auto& [key, item] : decoder.items()) {
      const std::string path = fmt::format("added_tokens_decoder[{}]", in_quotes(key));
      if (!item.is_object()) fail(path, "must be an object");
      AddedToken token;
      token.content = text(item, "content", path);
      if (token.content.empty()) fail(path, "content is empty");
      if (!known.insert(token.content).second) continue;
      const bool digits = !key.empty() && key.size() <= 7 &&
                          key.find_first_not_of("0123456789") == std::string::npos;
      if (!digits) fail(path, "the key must be a token id");
      token.id = std::stoi(key);
      token.single_word = flag(item, "single_word", path);
      token.lstrip = flag(item, "lstrip", path);
      token.rstrip = flag(item, "rstrip", path);
      token.normalized = flag(item, "normalized", path);
      token.special = flag(item, "special", path);
      missing.push_back(std::move(token));
    }
    std::sort(missing.begin(), missing.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    int32_t next = next_added_id(spec_);
    for (AddedToken& token : missing) {
      const int64_t found = spec_.vocabulary.find(token.content);
      const int32_t id = found >= 0 ? spec_.ids[static_cast<size_t>(found)] : next;
      if (id != token.id || id > kMaxTokenId) {
        fail(fmt::format("added_tokens_decoder[\"{}\"]", token.id),
             fmt::format("{} would get id {} beside this tokenizer.json", in_quotes(token.content),
                         id));
      }
      next = std::max(next, id + 1);
      spec_.added_tokens.push_back(std::move(token));
    }
  }

  std::optional<int32_t> special_token(const Json& root, const char* key) const {
    const Json* value = find(root, key);
    if (!value) return std::nullopt;
    if (!value->is_string() && !value->is_object()) {
      fail(key, "must be a string, or an object with \"content\"");
    }
    const std::string content =
        value->is_string() ? value->get<std::string>() : text(*value, "content", key);
    const int32_t id = find_token(spec_, content);
    if (id < 0) {
      fail(key, fmt::format("{} is not in the vocabulary of tokenizer.json", in_quotes(content)));
    }
    return id;
  }

 private:
  const std::string& origin_;
  TokenizerSpec& spec_;
};

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& origin,
                                      TokenizerSpec& spec) {
  if (json.size() > kMaxConfigBytes) {
    throw Error(fmt::format("{}: {} bytes, more than the {} that such a file may have", origin,
                            json.size(), kMaxConfigBytes));
  }
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    throw Error(fmt::format("{}: not JSON{}", origin, place_of_json_error(json)));
  }
  if (!root.is_object()) throw Error(fmt::format("{}: must be an object", origin));
  const Reader reader(origin, spec);
  if (const Json* added = Reader::find(root, "added_tokens_decoder")) {
    reader.add_missing_tokens(*added);
  }
  return {reader.special_token(root, "bos_token"), reader.special_token(root, "eos_token"),
          reader.special_token(root, "pad_token")};
}

}  // namespace plimsoll::text
