#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/text/tokenizer.h"

namespace plimsoll::text {

/// Turns ids into text while they are generated: a character whose bytes are spread over several
/// tokens is held back until it is whole. All pieces together equal Tokenizer::decode of all ids.
/// Not thread-safe.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);

  /// The text that became whole by this id; may be empty.
  std::string feed(int32_t id);

  /// The rest (U+FFFD where a character was cut short); the decoder is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;  // at most three bytes between calls
};

}  // namespace plimsoll::text
