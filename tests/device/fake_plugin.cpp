// A backend that takes the option "speed" and registers no device.
#include <cstring>

extern "C" const char* plimsoll_backend_configure(const char* key, const char* value) {
  if (std::strcmp(key, "speed") != 0) return "no such option";
  return std::strcmp(value, "fast") == 0 ? nullptr : "fast is the only speed";
}
