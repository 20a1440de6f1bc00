#pragma once

#include <deque>
#include <filesystem>
#include <optional>

#include "plimsoll/device/memory_monitor.h"
#include "plimsoll/report/console.h"
#include "plimsoll/report/metrics_log.h"
#include "plimsoll/report/record.h"
#include "plimsoll/report/tensorboard.h"
#include "plimsoll/trainer/session.h"
#include "plimsoll/trainer/step.h"

namespace plimsoll::trainer {

/// A step whose numbers the host has not read yet.
struct PendingStep {
  report::StepRecord record;
  StepResult result;
};

/// The reports of one run: reads the device's numbers when they are due (each step on the CPU, each
/// metrics.interval elsewhere, so that steps queue up without waiting) and hands plain records to
/// console, metrics.jsonl and TensorBoard. Used by the training loop's thread.
class Reporter {
 public:
  /// `peak` is the device's FLOP/s, if known. Records after the session's step are cut off the
  /// logs.
  Reporter(const Session& session, const std::filesystem::path& folder, std::optional<double> peak,
           report::Console& console);

  void add(PendingStep step);
  /// Reads all that is pending. Throws Error naming the first step that was not finite.
  void flush();
  /// flush(), and the line of the last step where its number is no multiple of the interval.
  void finish();
  void validation(report::ValidationRecord record);

  double last_loss() const { return last_loss_; }

 private:
  void report_step(PendingStep step);
  void print(const report::StepRecord& record);

  const Session& session_;
  report::Console& console_;
  report::MetricsLog log_;
  std::optional<report::TensorBoard> tensorboard_;
  device::MemoryMonitor memory_;
  std::optional<double> peak_;
  int64_t flops_ = 0;  // per token, forward and backward
  std::deque<PendingStep> pending_;
  std::optional<report::StepRecord> unprinted_;  // the last step, while its line is not due
  double last_loss_ = 0;
};

}  // namespace plimsoll::trainer
