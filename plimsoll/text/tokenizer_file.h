#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/text/added_tokens.h"
#include "plimsoll/text/bpe_model.h"
#include "plimsoll/text/pre_tokenizer.h"
#include "plimsoll/text/string_table.h"

namespace plimsoll::text {

/// What a tokenizer.json says, checked: every id is in range and belongs to one token, every merge
/// names tokens of the vocabulary, everything asked for is supported.
struct TokenizerSpec {
  StringTable vocabulary;     // spellings
  std::vector<int32_t> ids;   // by index in vocabulary
  std::vector<Merge> merges;  // by rank
  bool ignore_merges = false;
  std::vector<AddedToken> added_tokens;
  bool nfc = false;  // normalise first
  std::vector<Splitter> splitters;
  std::vector<int32_t> template_prefix;  // of the post-processor
  std::vector<int32_t> template_suffix;
};

/// Ids beyond are refused: tables are as long as the largest id.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 22) - 1;
inline constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;

/// Throws Error naming `origin` and the field. Deviations from Hugging Face, all towards refusing:
/// duplicate tokens, an added token whose "id" is not the one that Hugging Face gives it (it
/// ignores the field), unknown keys of the model. "truncation" and "padding" say how a caller cuts
/// batches and are not looked at.
TokenizerSpec read_tokenizer_json(std::string_view json, const std::string& origin);

/// Id of a token, added or of the vocabulary, or -1.
int32_t find_token(const TokenizerSpec& spec, std::string_view spelling);

/// The id that Hugging Face gives to a further added token.
int32_t next_added_id(const TokenizerSpec& spec);

}  // namespace plimsoll::text
