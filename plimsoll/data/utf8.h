#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::data {

bool is_utf8(std::string_view bytes);

/// Length of the longest prefix that is valid UTF-8 (no surrogates, nothing over-long).
std::size_t valid_utf8_prefix(std::string_view bytes);

/// A copy in which each maximal ill-formed part is one U+FFFD, as browsers and Python do it.
std::string replace_invalid_utf8(std::string_view bytes);

/// Overwrites each \uD800..\uDFFF escape of JSON text that is not half of a pair by \ufffd.
void replace_lone_surrogate_escapes(std::string& json);

}  // namespace plimsoll::data
