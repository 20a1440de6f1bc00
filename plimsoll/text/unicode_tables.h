#pragma once

#include <cstdint>

namespace plimsoll::text::tables {

#include "plimsoll/text/unicode_tables.inc"

}  // namespace plimsoll::text::tables
