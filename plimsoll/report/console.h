#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/report/meters.h"
#include "plimsoll/report/record.h"

namespace plimsoll::report {

/// Where a console writes, and what that place can do.
struct Terminal {
  bool interactive = false;                     // a terminal that can redraw a line
  bool color = false;                           // and wants colour (NO_COLOR is not set)
  int fd = 1;                                   // used by write below and by restore_terminal
  std::function<int()> width;                   // columns now
  std::function<void(std::string_view)> write;  // all of it, at once
  std::function<double()> seconds;              // a clock that never goes back
};

/// Standard output as it is: isatty, TERM, NO_COLOR, the window's width.
Terminal standard_terminal();

/// Step lines, messages, and (on a terminal) a progress bar below them, redrawn in place at most
/// ten times a second; elsewhere lines only. The bar is removed by finish() and the destructor.
/// Thread safe: a message from another thread goes above the bar whole.
class Console {
 public:
  explicit Console(Terminal terminal = standard_terminal());
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Starts the bar: `done` steps of `total` are behind us.
  void start(int64_t done, int64_t total);
  /// Counts a step for bar and ETA, without a line.
  void progress(const StepRecord& record);
  /// Prints the step line (the caller says when; progress() is called for every step).
  void step(const StepRecord& record);
  void validation(const ValidationRecord& record);
  /// One message, which may hold several lines.
  void line(std::string_view text);
  void finish();

 private:
  void print(std::string_view text);  // with the lock held, as are the two below
  void draw(bool force);
  void erase();

  std::mutex mutex_;
  Terminal terminal_;
  StepClock clock_;
  int64_t done_ = 0, total_ = 0;
  std::optional<double> loss_;
  double last_draw_ = 0;
  bool running_ = false, drawn_ = false;
};

/// Removes the bar of a console from a signal handler that will not return to it.
/// Async-signal-safe.
void restore_terminal() noexcept;

/// "step:  1  loss:  8.04910  grad_norm:  1.2345  memory:  0.45GiB(12.30%)  tps: 12,345  tflops:
/// ..."
std::string step_line(const StepRecord& record, bool color = false);
std::string validation_line(const ValidationRecord& record, bool color = false);
/// One line shorter than `width` columns; what does not fit is left out, the bar itself first.
std::string progress_line(int64_t done, int64_t total, std::optional<double> loss,
                          std::optional<double> seconds_left, int width);
/// "1:02:03", "2:03", "n/a".
std::string format_duration(std::optional<double> seconds);

}  // namespace plimsoll::report
