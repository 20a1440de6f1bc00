#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/text/tokenizer_file.h"

namespace plimsoll::text {

/// What is taken from tokenizer_config.json.
struct TokenizerConfig {
  std::optional<int32_t> bos, eos, pad;
};

inline constexpr size_t kMaxConfigBytes = size_t{16} << 20;

/// bos_token, eos_token and pad_token as strings or objects with "content"; each must be a token.
/// Entries of added_tokens_decoder that tokenizer.json lacks are added to `spec`. Throws Error
/// naming `origin` and the key.
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& origin,
                                      TokenizerSpec& spec);

}  // namespace plimsoll::text
