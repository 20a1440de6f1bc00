#pragma once

namespace plimsoll::device {

/// The text of profiles/peak_flops.toml, put into the library by the build.
extern const char* const kPeakTable;

}  // namespace plimsoll::device
