#include "plimsoll/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace plimsoll {

std::string xxh3_hex(std::string_view bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace plimsoll
