// Bytes as tokenizer.json; where it parses, text goes through it. The bytes after a first NUL are
// tokenizer_config.json.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const std::string_view json = input.substr(0, nul);
  const std::string_view config = nul == input.npos ? std::string_view() : input.substr(nul + 1);
  try {
    const auto tokenizer = plimsoll::text::Tokenizer::parse(json, "fuzz", config);
    for (const std::string_view text :
         {std::string_view("It's 12 o'clock.\r\n\n  caf\u00e9 \xF0\x9F"), input.substr(0, 4096)}) {
      const auto ids = tokenizer.encode(text);
      tokenizer.decode(ids, false);
      tokenizer.encode(text, plimsoll::text::SpecialTokens::kAsText);
    }
    tokenizer.token(tokenizer.size() - 1);
    tokenizer.fingerprint();
  } catch (const plimsoll::Error&) {
    // Refused in one line, as it should be; anything else is a finding.
  }
  return 0;
}
