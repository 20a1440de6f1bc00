#include "plimsoll/report/crc32c.h"

#include <array>

namespace plimsoll::report {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0x82F63B78u : value >> 1;
    table[i] = value;
  }
  return table;
}();

}  // namespace

uint32_t crc32c(std::string_view bytes) noexcept {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

// The rotation and constant of the format, so that a CRC over bytes that hold a CRC stays sound.
uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

}  // namespace plimsoll::report
