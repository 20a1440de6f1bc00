#include "plimsoll/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace plimsoll {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string xxh3_hex(std::string_view bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::uint64_t xxh3_64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void Xxh3::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Xxh3::update(std::string_view bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Xxh3::hex() const {
  return to_hex(XXH3_128bits_digest(state_.get()));
}

}  // namespace plimsoll
