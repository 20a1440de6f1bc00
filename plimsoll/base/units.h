#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

/// "1024", "2 GiB", "512MB", "1.5g" as bytes. KB, MB, GB, TB are powers of 1000; KiB..TiB, and the
/// bare letters K, M, G, T, powers of 1024. Case does not matter. Error for anything else, for
/// negative values and for what does not fit in an int64.
std::int64_t parse_bytes(std::string_view text);

/// "0 B", "812 B", "1.50 KiB", "2.00 GiB": powers of 1024, three significant digits.
std::string format_bytes(std::int64_t bytes);

/// "1,234,567".
std::string format_count(std::int64_t count);

}  // namespace plimsoll
