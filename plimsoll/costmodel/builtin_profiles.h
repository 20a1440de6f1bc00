#pragma once

#include <array>
#include <string_view>

namespace plimsoll::costmodel {

/// The text of a file in profiles/, put into the library by the build.
struct BuiltinProfile {
  std::string_view name;
  std::string_view toml;
};
extern const std::array<BuiltinProfile, 3> kBuiltinProfiles;

}  // namespace plimsoll::costmodel
