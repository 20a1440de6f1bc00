#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/report/append_file.h"
#include "plimsoll/report/record.h"

namespace plimsoll::report {

/// One file of TensorBoard events (events.out.tfevents.*), written by us: framing with CRC32C and
/// hand-encoded messages. Scalars are float32, as the format has it. Not thread safe.
class TensorBoard {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;

  /// Starts a file of its own in `folder`, which must exist. `last_step` above 0 tells TensorBoard
  /// that this run goes on after that step, so that it drops what earlier files say of later ones.
  explicit TensorBoard(const std::filesystem::path& folder, int64_t last_step = 0);

  /// Tags: loss_metrics/global_avg_loss, grad_norm, lr, throughput(tps), tflops, mfu(%),
  /// time_metrics/..., memory/..., n_tokens_seen, and those of `extra`. Absent numbers are left
  /// out.
  void write(const StepRecord& record);
  /// Tags: validation_metrics/loss, validation_metrics/throughput(tps),
  /// validation_metrics/memory/...
  void write(const ValidationRecord& record);
  void write(int64_t step, const Scalars& scalars);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  AppendFile file_;
};

/// The record format: length, masked CRC of the length, payload, masked CRC of the payload.
std::string frame_event(std::string_view payload);
/// What an event file holds.
struct EventsCheck {
  int64_t events = 0;
  uint64_t whole_bytes = 0;  ///< up to the end of the last whole event
  std::string problem;       ///< why the rest is none; empty where there is no rest
};
EventsCheck check_events(std::string_view bytes);
/// The payloads, `wall_time` in seconds since 1970.
std::string encode_version(double wall_time);
std::string encode_restart(double wall_time, int64_t first_step);
std::string encode_scalars(double wall_time, int64_t step, const TensorBoard::Scalars& scalars);

}  // namespace plimsoll::report
