#pragma once

#include <string>
#include <string_view>

namespace plimsoll::text {

/// Unicode normalisation form C as Hugging Face does it (its tables, not the newest standard's).
/// Returns false and leaves `out` alone where `text` is already normalised by the quick check, the
/// common case; else true with the whole result in `out`. `text` must be valid UTF-8.
bool normalise_nfc(std::string_view text, std::string& out);

}  // namespace plimsoll::text
