#pragma once

#include <string>
#include <string_view>

namespace plimsoll::checkpoint {

/// Text from a file made fit for one line of an error message: control characters become '?', and
/// more than `limit` bytes end in "...".
std::string printable(std::string_view text, std::size_t limit = 120);
/// The same in double quotes.
std::string quote(std::string_view text);

}  // namespace plimsoll::checkpoint
