#include "plimsoll/version.h"

namespace plimsoll {

// A file of its own, so that a bump rebuilds one object.
const char* version() {
  return "0.1.0";
}

}  // namespace plimsoll
