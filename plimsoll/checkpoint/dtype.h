#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::checkpoint {

/// Element types of the safetensors format, under the names the format gives them.
enum class DType : std::uint8_t {
  F64,
  F32,
  F16,
  BF16,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL,
  F8_E4M3,
  F8_E5M2,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  F6_E2M3,
  F6_E3M2,
  F4,
  C64,
};

/// Bits of one element. The 4 and 6 bit types are packed: only whole bytes of them make a tensor.
int dtype_bits(DType dtype);
/// The name in the file, e.g. "BF16".
std::string_view dtype_name(DType dtype);
/// Empty when the format knows no such name. Names are case-sensitive.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace plimsoll::checkpoint
