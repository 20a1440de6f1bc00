#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::report {

/// CRC-32C (Castagnoli) as in RFC 3720, and the masked form that event files store.
uint32_t crc32c(std::string_view bytes) noexcept;
uint32_t masked_crc32c(std::string_view bytes) noexcept;

}  // namespace plimsoll::report
