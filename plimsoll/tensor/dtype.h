#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace plimsoll::tensor {

/// The short name used in recipes and reports: "fp32", "bf16", "int64", "bool", ...
std::string dtype_name(c10::ScalarType type);
/// Takes the short names and torch's ("float32", "bfloat16", "torch.bfloat16"). Throws UsageError
/// that lists the known names.
c10::ScalarType dtype_from_name(std::string_view name);

}  // namespace plimsoll::tensor
