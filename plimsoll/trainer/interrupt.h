#pragma once

namespace plimsoll::trainer {

/// While one of these lives, a first SIGINT or SIGTERM sets a flag and says so on stderr, so that
/// the loop can finish its step and save; a second one ends the process at once with exit code 130.
/// One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool interrupted();
};

}  // namespace plimsoll::trainer
