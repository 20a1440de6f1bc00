#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/units.h"
#include "plimsoll/report/console.h"

namespace plimsoll::report {
namespace {

constexpr const char* kMissing = "n/a";

std::string fixed(std::optional<double> value, int width, int decimals, const char* unit = "") {
  if (!value) return kMissing;
  return fmt::format("{:>{}.{}f}{}", *value, width, decimals, unit);
}

std::string rate(std::optional<double> value) {
  if (!value) return kMissing;
  // A rate that no 64-bit count holds is none; what is not a number is shown as that.
  if (!(std::abs(*value) < 1e18)) return fmt::format("{}", *value);
  return format_count(std::llround(*value));
}

std::string memory_text(const MemoryUse& memory) {
  const bool reserved = memory.reserved_bytes.has_value();
  const auto bytes = reserved ? memory.reserved_bytes : memory.active_bytes;
  const auto percent = reserved ? memory.reserved_percent : memory.active_percent;
  if (!bytes) return kMissing;
  std::string text = fmt::format("{:5.2f}GiB", static_cast<double>(*bytes) / 0x1p30);
  if (percent) text += fmt::format("({:.2f}%)", *percent);
  return text;
}

/// "name: value" parts two spaces apart, each in a colour of its own.
class Line {
 public:
  explicit Line(bool color) : color_(color) {}
  void add(int code, std::string_view name, std::string_view value) {
    if (!text_.empty()) text_ += "  ";
    text_ += color_ ? fmt::format("\x1b[{}m{}: {}\x1b[0m", code, name, value)
                    : fmt::format("{}: {}", name, value);
  }
  std::string text_;

 private:
  bool color_;
};

enum Color { kRed = 31, kGreen = 32, kYellow = 33, kBlue = 34, kMagenta = 35, kCyan = 36 };

}  // namespace

std::string step_line(const StepRecord& r, bool color) {
  Line line(color);
  line.add(kRed, "step", fmt::format("{:2}", r.step));
  line.add(kGreen, "loss", fixed(r.loss, 8, 5));
  line.add(kYellow, "grad_norm", fixed(r.grad_norm, 7, 4));
  line.add(kCyan, "memory", memory_text(r.memory));
  line.add(kBlue, "tps", rate(r.tokens_per_second));
  line.add(kCyan, "tflops", fixed(r.tflops, 0, 2));
  line.add(kMagenta, "mfu", fixed(r.mfu, 0, 2, "%"));
  return line.text_;
}

std::string validation_line(const ValidationRecord& r, bool color) {
  Line line(color);
  line.add(kRed, "validate step", fmt::format("{:2}", r.step));
  line.add(kGreen, "loss", fixed(r.loss, 8, 5));
  line.add(kCyan, "memory", memory_text(r.memory));
  line.add(kBlue, "tps", rate(r.tokens_per_second));
  return line.text_;
}

std::string format_duration(std::optional<double> seconds) {
  if (!seconds || !(*seconds >= 0) || *seconds > 1e9) return kMissing;
  const int64_t whole = std::llround(*seconds);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

std::string progress_line(int64_t done, int64_t total, std::optional<double> loss,
                          std::optional<double> seconds_left, int width) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0)
                : 0.0;
  // One column stays free: a full line would make the terminal wrap.
  const int room = std::max(0, width - 1);
  const std::string head = fmt::format("{:3.0f}% ", std::floor(100 * share));
  std::string tail = fmt::format(" {}/{}", done, total);
  const std::string more[] = {fmt::format("  ETA {}", format_duration(seconds_left)),
                              fmt::format("  loss {}", fixed(loss, 0, 4))};
  for (const std::string& part : more) {
    if (static_cast<int>(head.size() + tail.size() + part.size()) <= room) tail += part;
  }
  constexpr int kLeast = 8, kMost = 50;
  const int cells = std::min(room - static_cast<int>(head.size() + tail.size()) - 2, kMost);
  std::string bar;
  if (cells >= kLeast) {
    const int full = static_cast<int>(share * cells);
    const std::string arrow = std::string(full, '=') + (full < cells ? ">" : "");
    bar = fmt::format("[{:<{}}]", arrow, cells);
  }
  std::string line = head + bar + tail;
  if (static_cast<int>(line.size()) > room) line.resize(room);
  return line;
}

}  // namespace plimsoll::report
