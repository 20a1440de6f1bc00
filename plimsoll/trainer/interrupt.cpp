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

void on_signal(int) {
  if (g_signals.fetch_add(1) == 0) return;
  report::restore_terminal();
  constexpr char text[] = "\ninterrupted twice: stopped without saving\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, sizeof(text) - 1);
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
