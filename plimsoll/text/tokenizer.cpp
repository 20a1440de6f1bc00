#include "plimsoll/text/tokenizer.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/text/byte_level.h"
#include "plimsoll/text/nfc.h"
#include "plimsoll/text/tokenizer_config.h"
#include "plimsoll/text/tokenizer_file.h"
#include "plimsoll/text/unicode.h"
#include "plimsoll/text/word_cache.h"

namespace plimsoll::text {

namespace {

// Part of every fingerprint: raised when the same file comes to encode differently.
constexpr int kEncodingVersion = 1;

struct Workspace {
  WordCache cache;
  MergeScratch merge;
};

// One workspace for each thread that encodes at the same time; they outlive the call, so that the
// caches stay warm.
class WorkspacePool {
 public:
  std::unique_ptr<Workspace> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace;
      }
    }
    return std::make_unique<Workspace>();
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

// Tokens by id. Holes have no spelling.
struct TokenTable {
  struct Entry {
    std::string_view spelling;     // in the spec's vocabulary or added tokens
    uint32_t begin = 0, size = 0;  // of its bytes in `arena`
    bool special = false;
  };
  std::vector<Entry> entries;
  std::string arena;

  const Entry* find(int32_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= entries.size()) return nullptr;
    const Entry& entry = entries[static_cast<size_t>(id)];
    return entry.spelling.data() ? &entry : nullptr;
  }
  std::string_view bytes(const Entry& entry) const {
    return std::string_view(arena).substr(entry.begin, entry.size);
  }
};

TokenTable make_token_table(const TokenizerSpec& spec, const std::string& origin) {
  TokenTable table;
  const auto put = [&](std::string_view spelling, int32_t id, bool special) {
    if (static_cast<size_t>(id) >= table.entries.size()) {
      table.entries.resize(static_cast<size_t>(id) + 1);
    }
    TokenTable::Entry& entry = table.entries[static_cast<size_t>(id)];
    if (entry.spelling.data() && entry.spelling != spelling) {
      throw Error(fmt::format("{}: id {} is given to both \"{}\" and \"{}\"", origin, id,
                              entry.spelling, spelling));
    }
    // Text outside the byte alphabet stands for itself.
    const auto bytes = bytes_of_spelling(spelling);
    const std::string_view meant = bytes ? std::string_view(*bytes) : spelling;
    entry = {spelling, static_cast<uint32_t>(table.arena.size()),
             static_cast<uint32_t>(meant.size()), special};
    table.arena.append(meant);
  };
  for (uint32_t i = 0; i < spec.vocabulary.size(); ++i) {
    put(spec.vocabulary[i], spec.ids[i], false);
  }
  for (const AddedToken& token : spec.added_tokens) put(token.found_as, token.id, token.special);
  return table;
}

BpeModel make_model(TokenizerSpec& spec) {
  BpeModel::Parts parts;
  for (int b = 0; b < 256; ++b) {
    std::string spelling;
    const char byte = static_cast<char>(b);
    append_spelling({&byte, 1}, spelling);
    const int64_t index = spec.vocabulary.find(spelling);
    parts.byte_ids[static_cast<size_t>(b)] = index < 0 ? -1 : spec.ids[static_cast<size_t>(index)];
  }
  parts.merges = std::move(spec.merges);
  parts.ignore_merges = spec.ignore_merges;
  if (spec.ignore_merges) {
    for (uint32_t i = 0; i < spec.vocabulary.size(); ++i) {
      const auto bytes = bytes_of_spelling(spec.vocabulary[i]);
      if (bytes && parts.words.add(*bytes).fresh) parts.word_ids.push_back(spec.ids[i]);
    }
  }
  return BpeModel(std::move(parts));
}

void set_found_as(TokenizerSpec& spec) {
  for (AddedToken& token : spec.added_tokens) {
    if (!token.normalized || !spec.nfc || !normalise_nfc(token.content, token.found_as)) {
      token.found_as = token.content;
    }
  }
}

AddedTokenMatcher make_matcher(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string, size_t> place;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.normalized != normalized) continue;
    // Two may become equal by normalisation: the later one counts.
    const auto [found, fresh] = place.emplace(token.found_as, tokens.size());
    if (fresh) {
      tokens.push_back(token);
    } else {
      tokens[found->second] = token;
    }
  }
  return AddedTokenMatcher(std::move(tokens));
}

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerSpec s, TokenizerConfig c, const std::string& origin, std::string hash)
      : spec(std::move(s)),
        config(c),
        fingerprint(std::move(hash)),
        tokens(make_token_table(spec, origin)),
        raw_matcher(make_matcher(spec, false)),
        normalized_matcher(make_matcher(spec, true)),
        pre_tokenizer(spec.splitters),
        model(make_model(spec)) {}

  void encode_valid(std::string_view text, bool skip_special, Workspace& workspace,
                    std::vector<int32_t>& out) const {
    const auto word = [&](std::string_view w) {
      if (workspace.cache.find(w, out)) return;
      const size_t old = out.size();
      model.encode(w, workspace.merge, out);
      workspace.cache.store(w, std::span<const int32_t>(out).subspan(old));
    };
    const auto token = [&](int32_t id) { out.push_back(id); };
    const auto normalized = [&](std::string_view piece) {
      pre_tokenizer.for_each_word(piece, word);
    };
    raw_matcher.split(
        text, skip_special,
        [&](std::string_view piece) {
          std::string composed;
          if (spec.nfc && normalise_nfc(piece, composed)) piece = composed;
          normalized_matcher.split(piece, skip_special, normalized, token);
        },
        token);
  }

  TokenizerSpec spec;  // without its merges, which the model took
  TokenizerConfig config;
  std::string fingerprint;
  TokenTable tokens;
  AddedTokenMatcher raw_matcher, normalized_matcher;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  mutable WorkspacePool pool;
};

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& file_or_folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool folder = fs::is_directory(file_or_folder, error);
  const fs::path file = folder ? file_or_folder / "tokenizer.json" : file_or_folder;
  if (!fs::exists(file, error)) {
    if (error) throw Error(fmt::format("cannot open {}: {}", file.string(), error.message()));
    throw Error(fmt::format("no tokenizer at {}", file.string()),
                "give a tokenizer.json or a folder that holds one; `plimsoll tokenizer train` "
                "makes one from a text");
  }
  const auto read = [](const fs::path& path, size_t limit) {
    std::error_code ignored;
    const auto size = fs::file_size(path, ignored);
    if (!ignored && size > limit) {
      throw Error(fmt::format("{}: {} bytes, more than the {} that such a file may have",
                              path.string(), size, limit));
    }
    return read_file(path);
  };
  const std::string json = read(file, kMaxTokenizerBytes);
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  const std::string config_json = fs::exists(config, error) ? read(config, kMaxConfigBytes) : "";
  return parse(json, file.string(), config_json);
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& origin,
                           std::string_view config_json) {
  TokenizerSpec spec = read_tokenizer_json(json, origin);
  TokenizerConfig config;
  const size_t own_tokens = spec.added_tokens.size();
  if (!config_json.empty()) {
    const auto folder = std::filesystem::path(origin).parent_path();
    config = read_tokenizer_config(config_json, (folder / "tokenizer_config.json").string(), spec);
  }
  // The bytes of the file, and of the config only what was taken: a chat template changes no ids.
  std::string key =
      fmt::format("{} {} {} {} {}", kEncodingVersion, xxh3_hex(json), config.bos.value_or(-1),
                  config.eos.value_or(-1), config.pad.value_or(-1));
  for (size_t i = own_tokens; i < spec.added_tokens.size(); ++i) {
    const AddedToken& t = spec.added_tokens[i];
    key += fmt::format(" {}:{}:{}{}{}{}{}:{}", t.id, t.content.size(), t.single_word, t.lstrip,
                       t.rstrip, t.normalized, t.special, t.content);
  }
  set_found_as(spec);
  return Tokenizer(std::make_shared<const Impl>(std::move(spec), config, origin, xxh3_hex(key)));
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& out,
                       SpecialTokens specials) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repair_utf8(text, false, repaired);
    text = repaired;
  }
  auto workspace = impl_->pool.take();
  impl_->encode_valid(text, specials == SpecialTokens::kAsText, *workspace, out);
  impl_->pool.give_back(std::move(workspace));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens specials) const {
  std::vector<int32_t> ids;
  encode(text, ids, specials);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const auto* entry = impl_->tokens.find(id);
    if (entry && !(skip_special && entry->special)) bytes += impl_->tokens.bytes(*entry);
  }
  if (is_valid_utf8(bytes)) return bytes;
  std::string text;
  repair_utf8(bytes, false, text);
  return text;
}

int32_t Tokenizer::size() const {
  return static_cast<int32_t>(impl_->tokens.entries.size());
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const int32_t id = find_token(impl_->spec, token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string Tokenizer::token(int32_t id) const {
  const auto* entry = impl_->tokens.find(id);
  return entry ? std::string(entry->spelling) : std::string();
}

std::string_view Tokenizer::bytes(int32_t id) const {
  const auto* entry = impl_->tokens.find(id);
  return entry ? impl_->tokens.bytes(*entry) : std::string_view();
}

bool Tokenizer::is_special(int32_t id) const {
  const auto* entry = impl_->tokens.find(id);
  return entry && entry->special;
}

std::optional<int32_t> Tokenizer::bos() const {
  return impl_->config.bos;
}
std::optional<int32_t> Tokenizer::eos() const {
  return impl_->config.eos;
}
std::optional<int32_t> Tokenizer::pad() const {
  return impl_->config.pad;
}

const std::vector<int32_t>& Tokenizer::template_prefix() const {
  return impl_->spec.template_prefix;
}
const std::vector<int32_t>& Tokenizer::template_suffix() const {
  return impl_->spec.template_suffix;
}

std::string Tokenizer::fingerprint() const {
  return impl_->fingerprint;
}

}  // namespace plimsoll::text
