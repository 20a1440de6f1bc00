#pragma once

#include <string>

namespace plimsoll::cli {

/// All bytes of the standard input. Throws Error where it cannot be read.
std::string read_stdin();

}  // namespace plimsoll::cli
