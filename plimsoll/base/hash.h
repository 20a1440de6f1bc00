#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

/// xxh3-128 of the bytes as 32 lower-case hex digits.
std::string xxh3_hex(std::string_view bytes);

}  // namespace plimsoll
