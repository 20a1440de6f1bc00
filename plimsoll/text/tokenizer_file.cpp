#include "plimsoll/text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "plimsoll/text/byte_level.h"
#include "plimsoll/text/json_node.h"

namespace plimsoll::text {

namespace {

constexpr size_t kMaxTemplateItems = 64;

[[noreturn]] void unsupported(const JsonNode& node, std::string_view known) {
  node.fail(fmt::format("{} is not supported (known: {})", node.shown(), known));
}

// True where the node is there and says so.
bool flag(const JsonNode& object, std::string_view key) {
  const auto node = object.find(key);
  return node && node->boolean();
}

void read_vocabulary(const JsonNode& node, TokenizerSpec& spec) {
  const auto object = node.object();
  spec.vocabulary.reserve(object.size(), object.size() * 8);
  std::vector<bool> used;
  for (const auto& [key, value] : object) {
    const std::string_view token = key;
    const auto here = [&] { return fmt::format("[{}]", in_quotes(token)); };
    int64_t id = 0;
    if (value.get(id) || id < 0 || id > kMaxTokenId) {
      node.fail_at(here(), fmt::format("the id must be an integer from 0 to {}", kMaxTokenId));
    }
    if (!spec.vocabulary.add(token).fresh) node.fail_at(here(), "stands twice");
    if (static_cast<size_t>(id) >= used.size()) used.resize(static_cast<size_t>(id) * 2 + 1);
    if (used[static_cast<size_t>(id)]) {
      node.fail_at(here(), fmt::format("id {} belongs to another token too", id));
    }
    used[static_cast<size_t>(id)] = true;
    spec.ids.push_back(static_cast<int32_t>(id));
  }
}

void read_merges(const JsonNode& node, TokenizerSpec& spec) {
  const auto array = node.array();
  spec.merges.reserve(array.size());
  size_t index = 0;
  std::string joined;
  const auto fail = [&](const std::string& problem) {
    node.fail_at(fmt::format("[{}]", index), problem);
  };
  const auto id_of = [&](std::string_view token) {
    const int64_t found = spec.vocabulary.find(token);
    if (found < 0) fail(fmt::format("{} is not in model.vocab", in_quotes(token)));
    return spec.ids[static_cast<size_t>(found)];
  };
  for (const auto& value : array) {
    std::string_view line, left, right;
    simdjson::dom::array pair;
    if (!value.get(line)) {
      if (line.starts_with("#version")) continue;  // a header line of older files
      const size_t space = line.find(' ');
      if (space == line.npos || line.find(' ', space + 1) != line.npos) {
        fail(fmt::format("{} is not two tokens with a space between", in_quotes(line)));
      }
      left = line.substr(0, space);
      right = line.substr(space + 1);
    } else if (value.get(pair) || pair.size() != 2 || pair.at(0).get(left) ||
               pair.at(1).get(right)) {
      fail("must be two tokens, as \"a b\" or [\"a\", \"b\"]");
    }
    joined.assign(left).append(right);
    spec.merges.push_back({id_of(left), id_of(right), id_of(joined)});
    ++index;
  }
}

void read_model(const JsonNode& node, TokenizerSpec& spec) {
  node.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                   "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                   "merges"});
  // Old files name no type; vocabulary and merges together tell BPE from the others.
  if (const auto type = node.find("type"); type && type->string() != "BPE") {
    unsupported(*type, "BPE");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto text = node.find(key); text && !text->string().empty()) {
      unsupported(*text, "none");
    }
  }
  if (const auto dropout = node.find("dropout")) {
    double rate = 1;
    if (dropout->raw().get(rate) || rate != 0) unsupported(*dropout, "none");
  }
  if (flag(node, "byte_fallback")) unsupported(node.at("byte_fallback"), "false");
  flag(node, "fuse_unk");  // of no effect without an unknown token
  spec.ignore_merges = flag(node, "ignore_merges");
  read_vocabulary(node.at("vocab"), spec);
  read_merges(node.at("merges"), spec);
  if (const auto unknown = node.find("unk_token")) {
    // Never needed where every byte is a token.
    for (int b = 0; b < 256; ++b) {
      std::string spelling;
      const char byte = static_cast<char>(b);
      append_spelling({&byte, 1}, spelling);
      if (spec.vocabulary.find(spelling) < 0) {
        unknown->fail(fmt::format("{} is not supported in a vocabulary that lacks byte {:#04x}",
                                  unknown->shown(), b));
      }
    }
  }
}

void read_added_tokens(const JsonNode& node, TokenizerSpec& spec) {
  std::unordered_set<std::string> seen;
  int32_t next = next_added_id(spec);
  for (const JsonNode& item : node.items()) {
    AddedToken token;
    token.content = item.at("content").string();
    if (token.content.empty()) item.fail("content is empty");
    if (!seen.insert(token.content).second) {
      item.fail(fmt::format("{} stands twice", in_quotes(token.content)));
    }
    token.single_word = flag(item, "single_word");
    token.lstrip = flag(item, "lstrip");
    token.rstrip = flag(item, "rstrip");
    token.normalized = flag(item, "normalized");
    token.special = flag(item, "special");
    const int64_t known = spec.vocabulary.find(token.content);
    token.id = known >= 0 ? spec.ids[static_cast<size_t>(known)] : next;
    const int64_t id = item.at("id").integer(0, kMaxTokenId);
    if (id != token.id) {
      item.at("id").fail(fmt::format("{} for {}, but Hugging Face reads this file as giving it {}",
                                     id, in_quotes(token.content), token.id));
    }
    next = std::max(next, token.id + 1);
    spec.added_tokens.push_back(std::move(token));
  }
}

void read_normalizer(const JsonNode& node, TokenizerSpec& spec) {
  const JsonNode type = node.at("type");
  if (type.string() == "Sequence") {
    for (const JsonNode& part : node.at("normalizers").items()) read_normalizer(part, spec);
  } else if (type.string() == "NFC") {
    spec.nfc = true;
  } else {
    unsupported(type, "NFC, Sequence");
  }
}

void read_split(const JsonNode& node, TokenizerSpec& spec) {
  node.allow_only({"type", "pattern", "behavior", "invert"});
  const JsonNode pattern = node.at("pattern");
  pattern.allow_only({"Regex", "String"});
  const auto regex = pattern.find("Regex");
  if (!regex) pattern.fail("is not supported (known: Regex)");
  const auto splitter = splitter_of_pattern(regex->string());
  if (!splitter) unsupported(*regex, "the patterns of GPT-2, Llama 3 and Qwen 3");
  // These patterns match every character, so keeping what matches and dropping the rest is the same
  // as cutting at the matches.
  const JsonNode behavior = node.at("behavior");
  const bool inverted = flag(node, "invert");
  const bool known = inverted ? behavior.string() == "Removed" : behavior.string() == "Isolated";
  if (!known) {
    behavior.fail(
        fmt::format("{} with invert {} is not supported (known: \"Isolated\" with false, "
                    "\"Removed\" with true)",
                    behavior.shown(), inverted));
  }
  spec.splitters.push_back(*splitter);
}

// Returns whether the node, or its last part, is ByteLevel.
bool read_pre_tokenizer(const JsonNode& node, TokenizerSpec& spec) {
  const JsonNode type = node.at("type");
  if (type.string() == "Sequence") {
    bool byte_level = false;
    for (const JsonNode& part : node.at("pretokenizers").items()) {
      if (byte_level) part.fail("is not supported after ByteLevel");
      byte_level = read_pre_tokenizer(part, spec);
    }
    return byte_level;
  }
  if (type.string() == "Split") {
    read_split(node, spec);
    return false;
  }
  if (type.string() == "Digits") {
    node.allow_only({"type", "individual_digits"});
    spec.splitters.push_back(flag(node, "individual_digits") ? Splitter::kDigits
                                                             : Splitter::kDigitRuns);
    return false;
  }
  if (type.string() != "ByteLevel") unsupported(type, "ByteLevel, Split, Digits, Sequence");
  node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (node.at("add_prefix_space").boolean()) spec.splitters.push_back(Splitter::kPrefixSpace);
  const auto use_regex = node.find("use_regex");
  if (!use_regex || use_regex->boolean()) spec.splitters.push_back(Splitter::kGpt2);
  return true;
}

void read_post_processor(const JsonNode& node, TokenizerSpec& spec) {
  const JsonNode type = node.at("type");
  if (type.string() == "Sequence") {
    for (const JsonNode& part : node.at("processors").items()) read_post_processor(part, spec);
    return;
  }
  if (type.string() == "ByteLevel") return;  // moves offsets only
  if (type.string() != "TemplateProcessing") {
    unsupported(type, "ByteLevel, TemplateProcessing, Sequence");
  }
  bool after = false;
  const auto single = node.at("single").items();
  if (single.size() > kMaxTemplateItems) node.fail_at(".single", "has too many items");
  for (const JsonNode& item : single) {
    if (item.find("Sequence")) {
      after = true;
      continue;
    }
    const JsonNode special = item.at("SpecialToken").at("id");
    const JsonNode entry = node.at("special_tokens").at(special.string());
    for (const JsonNode& id : entry.at("ids").items()) {
      auto& list = after ? spec.template_suffix : spec.template_prefix;
      list.push_back(static_cast<int32_t>(id.integer(0, kMaxTokenId)));
    }
  }
}

void read_decoder(const JsonNode& node) {
  const JsonNode type = node.at("type");
  if (type.string() != "ByteLevel") unsupported(type, "ByteLevel");
}

}  // namespace

int32_t find_token(const TokenizerSpec& spec, std::string_view spelling) {
  for (const AddedToken& token : spec.added_tokens) {
    if (token.content == spelling) return token.id;
  }
  const int64_t index = spec.vocabulary.find(spelling);
  return index < 0 ? -1 : spec.ids[static_cast<size_t>(index)];
}

int32_t next_added_id(const TokenizerSpec& spec) {
  auto next = static_cast<int32_t>(spec.vocabulary.size());
  for (const AddedToken& token : spec.added_tokens) next = std::max(next, token.id + 1);
  return next;
}

TokenizerSpec read_tokenizer_json(std::string_view json, const std::string& origin) {
  const JsonDocument document(json, origin, kMaxTokenizerBytes);
  const JsonNode root(document);
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    unsupported(*version, "1.0");
  }
  TokenizerSpec spec;
  read_model(root.at("model"), spec);
  if (const auto added = root.find("added_tokens")) read_added_tokens(*added, spec);
  if (const auto normalizer = root.find("normalizer")) read_normalizer(*normalizer, spec);
  const JsonNode pre_tokenizer = root.at("pre_tokenizer");
  if (!read_pre_tokenizer(pre_tokenizer, spec)) {
    pre_tokenizer.fail("is not supported without ByteLevel at its end");
  }
  if (const auto post = root.find("post_processor")) read_post_processor(*post, spec);
  read_decoder(root.at("decoder"));
  return spec;
}

}  // namespace plimsoll::text
