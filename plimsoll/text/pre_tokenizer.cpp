#include "plimsoll/text/pre_tokenizer.h"

namespace plimsoll::text {

namespace {

// As the files spell them; these exact strings are how a known pattern is told.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k1Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

std::string_view pattern_of(Splitter splitter) {
  switch (splitter) {
    case Splitter::kGpt2:
      return kGpt2Pattern;
    case Splitter::kCl100k1:
      return kCl100k1Pattern;
    case Splitter::kCl100k3:
      return kCl100k3Pattern;
    default:
      return {};
  }
}

std::optional<Splitter> splitter_of_pattern(std::string_view pattern) {
  for (const Splitter s : {Splitter::kGpt2, Splitter::kCl100k1, Splitter::kCl100k3}) {
    if (pattern == pattern_of(s)) return s;
  }
  return std::nullopt;
}

}  // namespace plimsoll::text
