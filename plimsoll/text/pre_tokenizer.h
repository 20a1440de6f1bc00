#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::text {

/// One way of cutting text into pieces; a pre-tokenizer is a list of them, each applied to the
/// pieces of the one before.
enum class Splitter : uint8_t {
  kGpt2,         ///< the pattern inside Hugging Face's ByteLevel (use_regex)
  kCl100k1,      ///< the cl100k kind with \p{N}: Qwen 2 and 3
  kCl100k3,      ///< the cl100k kind with \p{N}{1,3}: Llama 3
  kDigits,       ///< each numeric character alone
  kDigitRuns,    ///< each run of numeric characters alone
  kPrefixSpace,  ///< not a cut: puts a space before a piece that does not begin with one
};

}  // namespace plimsoll::text
