#include "plimsoll/tensor/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <xxhash.h>

namespace plimsoll::tensor {

std::uint64_t seed_for(std::uint64_t seed, std::string_view purpose) {
  return XXH3_64bits_withSeed(purpose.data(), purpose.size(), seed);
}

at::Generator make_generator(std::uint64_t seed, std::string_view purpose) {
  return at::detail::createCPUGenerator(seed_for(seed, purpose));
}

}  // namespace plimsoll::tensor
