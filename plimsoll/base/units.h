#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

/// Reads "2 GiB", "512MiB", "1.5 GB", "4096" into bytes. Throws Error where it is none of these or
/// does not fit 64 bits.
uint64_t parse_bytes(std::string_view text);

/// "1.50 GiB", "12 B".
std::string format_bytes(uint64_t bytes);

/// "6,163,712".
std::string format_count(uint64_t count);

}  // namespace plimsoll
