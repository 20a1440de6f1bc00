#include "plimsoll/checkpoint/dtype.h"

#include <array>

namespace plimsoll::checkpoint {
namespace {

struct Row {
  std::string_view name;
  int bits;
};

// In order of the enumeration.
constexpr std::array<Row, 22> kRows{{
    {"F64", 64},    {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"I64", 64},
    {"I32", 32},    {"I16", 16},        {"I8", 8},          {"U64", 64},    {"U32", 32},
    {"U16", 16},    {"U8", 8},          {"BOOL", 8},        {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"F4", 4},      {"C64", 64},
}};

}  // namespace

int dtype_bits(DType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].bits;
}

std::string_view dtype_name(DType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace plimsoll::checkpoint
