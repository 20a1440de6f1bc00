#pragma once

#include <stdexcept>
#include <string>

namespace plimsoll {

/// A failure that the person at the terminal can act on. what() is one clear line: what was wrong,
/// where (file, key, tensor, line) and the values; hint() is what to do about it, or empty.
/// The command line prints both and exits with 1.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::string hint = {});
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
};

/// The command line or the recipe is wrong: nothing was started. Exit code 2. what() may hold
/// several lines when several things are wrong.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace plimsoll
