#include "plimsoll/tensor/dtype.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll::tensor {
namespace {

struct Row {
  c10::ScalarType type;
  std::string_view name;
  std::string_view torch_name;
};

constexpr Row kRows[] = {
    {c10::ScalarType::Double, "fp64", "float64"},
    {c10::ScalarType::Float, "fp32", "float32"},
    {c10::ScalarType::Half, "fp16", "float16"},
    {c10::ScalarType::BFloat16, "bf16", "bfloat16"},
    {c10::ScalarType::Float8_e4m3fn, "fp8_e4m3", "float8_e4m3fn"},
    {c10::ScalarType::Float8_e5m2, "fp8_e5m2", "float8_e5m2"},
    {c10::ScalarType::Long, "int64", "int64"},
    {c10::ScalarType::Int, "int32", "int32"},
    {c10::ScalarType::Short, "int16", "int16"},
    {c10::ScalarType::Char, "int8", "int8"},
    {c10::ScalarType::Byte, "uint8", "uint8"},
    {c10::ScalarType::UInt16, "uint16", "uint16"},
    {c10::ScalarType::UInt32, "uint32", "uint32"},
    {c10::ScalarType::UInt64, "uint64", "uint64"},
    {c10::ScalarType::Bool, "bool", "bool"},
};

}  // namespace

std::string dtype_name(c10::ScalarType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return std::string(row.name);
  }
  return c10::toString(type);
}

c10::ScalarType dtype_from_name(std::string_view name) {
  std::string_view plain = name;
  if (plain.starts_with("torch.")) plain.remove_prefix(6);
  for (const Row& row : kRows) {
    if (row.name == plain || row.torch_name == plain) return row.type;
  }
  std::string known;
  for (const Row& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  throw UsageError(fmt::format("unknown dtype \"{}\"", name), "known are " + known);
}

}  // namespace plimsoll::tensor
