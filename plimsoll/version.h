#pragma once

namespace plimsoll {

/// Version of this library, "major.minor.patch".
const char* version();

}  // namespace plimsoll
