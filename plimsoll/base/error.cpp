#include "plimsoll/base/error.h"

#include <utility>

namespace plimsoll {

Error::Error(const std::string& what, std::string hint)
    : std::runtime_error(what), hint_(std::move(hint)) {}

}  // namespace plimsoll
