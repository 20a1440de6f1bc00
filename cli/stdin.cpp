#include "cli/stdin.h"

#include <cstdio>

#include "plimsoll/base/error.h"

namespace plimsoll::cli {

std::string read_stdin() {
  std::string text;
  char piece[1 << 16];
  while (const size_t got = std::fread(piece, 1, sizeof piece, stdin)) text.append(piece, got);
  if (std::ferror(stdin) != 0) throw Error("cannot read the standard input");
  return text;
}

}  // namespace plimsoll::cli
