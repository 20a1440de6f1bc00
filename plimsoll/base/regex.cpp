#include "plimsoll/base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "plimsoll/base/error.h"

namespace plimsoll {

Regex::Regex(std::string pattern) : pattern_(std::move(pattern)) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern_.data()), pattern_.size(),
                    PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr);
  if (!compiled) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    throw UsageError(fmt::format("\"{}\" is not a regular expression: {} at offset {}", pattern_,
                                 reinterpret_cast<const char*>(text.data()), offset));
  }
  code_.reset(compiled, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
}

bool Regex::found_in(std::string_view subject) const {
  auto* code = static_cast<pcre2_code*>(code_.get());
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), 0, 0,
                          match.get(), nullptr);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) {
    throw Error(fmt::format("matching \"{}\" against \"{}\" failed (PCRE2 error {})", pattern_,
                            subject.substr(0, 80), count));
  }
  return true;
}

}  // namespace plimsoll
