// What is installed as `plimsoll`: sets what the C and OpenMP runtimes read before main(), then
// becomes the program proper. By the time that one runs, its libraries have read their environment.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

namespace fs = std::filesystem;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// Threads that wait for each other at the end of a loop spin, which is quickest while nobody else
// wants their processors. A long spin steals them from whoever does: one busy neighbour then costs
// most of the speed (docs/environment.md). So they spin for some ten microseconds and sleep.
void bound_spinning() {
  if (!is_set("OMP_WAIT_POLICY")) ::setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/0);
}

// The allocator's own memory in huge pages: loading torch makes some hundred thousand small blocks.
void use_huge_pages() {
  constexpr const char* kName = "GLIBC_TUNABLES";
  std::string all = is_set(kName) ? std::getenv(kName) : "";
  if (all.find("glibc.malloc.hugetlb") != std::string::npos) return;
  if (!all.empty()) all.push_back(':');
  all.append("glibc.malloc.hugetlb=1");
  ::setenv(kName, all.c_str(), 1);
}

}  // namespace

int main(int, char** argv) {
  bound_spinning();
  use_huge_pages();
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  fs::path program = self.parent_path() / ".." / "libexec" / "plimsoll";  // installed
  if (!fs::exists(program, error)) program = self.parent_path() / "libexec" / "plimsoll";  // built
  ::execv(program.c_str(), argv);
  const std::string text =
      fmt::format("error: cannot start {}: {}\nhint: build or install plimsoll again\n",
                  program.lexically_normal().string(), std::strerror(errno));
  std::fwrite(text.data(), 1, text.size(), stderr);
  return 1;
}
