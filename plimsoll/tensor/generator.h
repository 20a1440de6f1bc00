#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <string_view>

namespace plimsoll::tensor {

/// The seed for one purpose ("init", "dropout", "sample", ...) of a run with the given seed: a hash
/// of both, so that adding a purpose or drawing more for one never shifts another. The same on
/// every machine.
std::uint64_t seed_for(std::uint64_t seed, std::string_view purpose);

/// A CPU generator of its own, seeded with seed_for(seed, purpose). A generator is not thread-safe;
/// copies of the handle share one state.
at::Generator make_generator(std::uint64_t seed, std::string_view purpose);

}  // namespace plimsoll::tensor
