#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::text {

/// The alphabet of byte-level BPE: tokenizer.json spells each byte as one printable character.

/// The character of each byte.
const std::array<uint16_t, 256>& byte_characters();

/// Appends the spelling of `bytes` to `out` (0x20 becomes U+0120).
void append_spelling(std::string_view bytes, std::string& out);

/// The bytes that a spelling stands for, or nothing where a character is outside the alphabet.
/// `spelling` must be valid UTF-8.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace plimsoll::text
