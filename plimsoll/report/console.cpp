#include "plimsoll/report/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace plimsoll::report {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr double kRedrawSeconds = 0.1;

/// The descriptor of the terminal that shows a bar now, for restore_terminal(); -1: none.
std::atomic<int> bar_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a closed pipe must not end a training run
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

Terminal standard_terminal() {
  Terminal terminal;
  const char* kind = std::getenv("TERM");
  terminal.fd = STDOUT_FILENO;
  terminal.interactive =
      ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::strcmp(kind, "dumb") != 0;
  terminal.color = terminal.interactive && !is_set("NO_COLOR");
  terminal.width = [] {
    winsize size{};
    constexpr int kUnknown = 80;
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? int{size.ws_col}
                                                                             : kUnknown;
  };
  terminal.write = [](std::string_view text) { write_all(STDOUT_FILENO, text); };
  terminal.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  return terminal;
}

Console::Console(Terminal terminal) : terminal_(std::move(terminal)) {}

Console::~Console() {
  try {
    finish();
  } catch (...) {  // a destructor has nobody to tell
  }
}

void Console::start(int64_t done, int64_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  loss_.reset();
  clock_ = StepClock();
  running_ = terminal_.interactive;
}

void Console::progress(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  done_ = record.step;
  loss_ = record.loss;
  clock_.add(record.seconds);
  draw(false);
}

void Console::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  print(step_line(record, terminal_.color));
}

void Console::validation(const ValidationRecord& record) {
  const std::lock_guard lock(mutex_);
  print(validation_line(record, terminal_.color));
}

void Console::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  print(text);
}

void Console::finish() {
  const std::lock_guard lock(mutex_);
  erase();
  running_ = false;
}

void Console::print(std::string_view text) {
  std::string out;
  if (drawn_) out += kEraseLine;
  out += text;
  if (!text.ends_with('\n')) out += '\n';
  terminal_.write(out);
  drawn_ = false;
  if (running_) draw(true);
}

void Console::draw(bool force) {
  if (!running_) return;
  const double now = terminal_.seconds();
  if (!force && drawn_ && now - last_draw_ < kRedrawSeconds) return;
  last_draw_ = now;
  drawn_ = true;
  bar_fd.store(terminal_.fd);
  terminal_.write(std::string(kEraseLine) + progress_line(done_, total_, loss_,
                                                          clock_.remaining(total_ - done_),
                                                          terminal_.width()));
}

void Console::erase() {
  if (drawn_) terminal_.write(kEraseLine);
  drawn_ = false;
  bar_fd.store(-1);
}

void restore_terminal() noexcept {
  const int fd = bar_fd.exchange(-1);
  if (fd < 0) return;
  const int kept = errno;
  [[maybe_unused]] const ssize_t ignored = ::write(fd, kEraseLine.data(), kEraseLine.size());
  errno = kept;
}

}  // namespace plimsoll::report
