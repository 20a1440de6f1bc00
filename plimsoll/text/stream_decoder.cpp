#include "plimsoll/text/stream_decoder.h"

#include <utility>

#include "plimsoll/text/unicode.h"

namespace plimsoll::text {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::feed(int32_t id) {
  std::string text;
  if (skip_special_ && tokenizer_.is_special(id)) return text;
  pending_ += tokenizer_.bytes(id);
  pending_.erase(0, repair_utf8(pending_, true, text));
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  repair_utf8(std::exchange(pending_, {}), false, text);
  return text;
}

}  // namespace plimsoll::text
