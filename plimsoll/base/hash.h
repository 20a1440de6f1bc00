#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace plimsoll {

/// xxh3-128 of the bytes as 32 lower-case hex digits. Not cryptographic: it finds damage and tells
/// contents apart, it does not stop a forger.
std::string xxh3_hex(std::string_view bytes);

/// xxh3-64, for checksums inside binary files.
std::uint64_t xxh3_64(std::string_view bytes);

/// The same over bytes that come in pieces. Move only, one thread at a time.
class Xxh3 {
 public:
  Xxh3();
  void update(std::string_view bytes);
  /// Of everything so far; update may go on afterwards. Same value as xxh3_hex.
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace plimsoll
