#include "plimsoll/trainer/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "plimsoll/report/console.h"

namespace plimsoll::trainer {
namespace {

std::atomic<int> g_signals{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");
struct sigaction g_previous_int, g_previous_term;

template <size_t n>
void say(const char (&text)[n]) {  // as a signal handler may
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, n - 1);
}

void on_signal(int) {
  if (g_signals.fetch_add(1) == 0) {
    say("\ninterrupted: this step is finished and what is due is saved; again stops at once\n");
    return;
  }
  report::restore_terminal();
  say("\ninterrupted twice: stopped without saving\n");
  ::_exit(130);
}

}  // namespace

InterruptScope::InterruptScope() {
  g_signals = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &g_previous_int);
  sigaction(SIGTERM, &action, &g_previous_term);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &g_previous_int, nullptr);
  sigaction(SIGTERM, &g_previous_term, nullptr);
}

bool InterruptScope::interrupted() {
  return g_signals.load() > 0;
}

}  // namespace plimsoll::trainer
