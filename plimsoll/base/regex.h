#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace plimsoll {

/// A compiled regular expression (PCRE2, UTF mode, JIT where the processor allows it).
/// Matching is const and thread safe. Copies share the compiled form.
class Regex {
 public:
  /// Throws UsageError naming the pattern, the offset and the reason when it does not compile.
  explicit Regex(std::string pattern);

  /// Whether the pattern is found anywhere in `subject`, which must be valid UTF-8.
  bool found_in(std::string_view subject) const;

  const std::string& pattern() const { return pattern_; }

 private:
  std::string pattern_;
  std::shared_ptr<void> code_;
};

}  // namespace plimsoll
