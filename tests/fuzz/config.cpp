// The reader of recipes over any bytes: it either throws UsageError, or the struct it filled writes
// to TOML that reads back to the same values.
#include "plimsoll/config/config.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "plimsoll/base/error.h"
#include "tests/config/sample.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace plimsoll::config;
  std::string text(reinterpret_cast<const char*>(data), size);
  // After a zero byte, which no recipe has, come --set arguments, one after another.
  std::vector<std::string> sets;
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {
    for (std::size_t begin = zero + 1; begin < text.size() && sets.size() < 8;) {
      const std::size_t end = std::min(text.find('\0', begin), text.size());
      sets.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    text.resize(zero);
  }
  sample::Recipe recipe, again;
  try {
    load(Source{"fuzz.toml", text}, sets, describe(recipe));
  } catch (const plimsoll::UsageError&) {
    return 0;
  }
  const std::string written = to_toml(recipe);
  load(Source{"again.toml", written}, {}, describe(again));
  if (to_toml(again) != written || !compare(recipe, again).empty()) std::abort();
  return 0;
}
