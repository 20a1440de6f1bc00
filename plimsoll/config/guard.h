#pragma once

#include <string>
#include <string_view>

namespace plimsoll::config {

/// Looks over a recipe before the parser sees it: how deep brackets nest and how long dotted keys
/// are, since both become recursion. Returns the problem ("3: brackets nest deeper than 32"), that
/// is line and message, or empty. Wrong syntax is left to the parser.
std::string find_depth_problem(std::string_view text);

}  // namespace plimsoll::config
