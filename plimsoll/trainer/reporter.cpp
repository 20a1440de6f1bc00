#include "plimsoll/trainer/reporter.h"

#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/report/meters.h"

namespace plimsoll::trainer {
namespace {

std::optional<uint64_t> unsigned_bytes(std::optional<int64_t> bytes) {
  if (!bytes || *bytes < 0) return std::nullopt;
  return static_cast<uint64_t>(*bytes);
}

// The sign of a NaN says nothing and prints as "-nan".
double unsigned_nan(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

report::MemoryUse memory_use(const device::MemorySnapshot& m) {
  return {.active_bytes = unsigned_bytes(m.active_peak),
          .active_percent = m.percent(m.active_peak),
          .reserved_bytes = unsigned_bytes(m.reserved_peak),
          .reserved_percent = m.percent(m.reserved_peak)};
}

}  // namespace

Reporter::Reporter(const Session& session, const std::filesystem::path& folder,
                   std::optional<double> peak, report::Console& console)
    : session_(session),
      console_(console),
      log_(folder, session.progress.step),
      memory_(session.device),
      peak_(peak) {
  if (session.config.metrics.tensorboard) tensorboard_.emplace(folder, session.progress.step);
  const model::DecoderConfig& m = session.decoder.config;
  flops_ = report::flops_per_token({.params = m.parameter_count(),
                                    .embedding_params = m.tied ? 0 : m.embedding_count(),
                                    .layers = m.layers,
                                    .heads = m.heads,
                                    .head_dim = m.head_dim,
                                    .seq_len = session.config.train.max_context});
}

void Reporter::add(PendingStep step) {
  const int64_t done = step.record.step;
  pending_.push_back(std::move(step));
  // On the CPU reading a number waits for nothing.
  if (session_.device.is_cpu() || done == 1 || done % session_.config.metrics.interval == 0)
    flush();
}

void Reporter::flush() {
  while (!pending_.empty()) {
    PendingStep step = std::move(pending_.front());
    pending_.pop_front();
    report_step(std::move(step));
  }
}

void Reporter::report_step(PendingStep step) {
  report::StepRecord& r = step.record;
  r.loss = step.result.loss.item<double>();
  r.grad_norm = step.result.clipped.norm.item<double>();
  r.tokens_per_second = report::tokens_per_second(r.tokens, r.seconds);
  r.tflops = report::tflops(flops_, r.tokens_per_second);
  r.mfu = report::mfu(flops_, r.tokens_per_second, peak_);
  r.memory = memory_use(memory_.read());
  last_loss_ = r.loss;
  log_.write(r);
  console_.progress(r);
  if (r.step == 1 || r.step % session_.config.metrics.interval == 0) {
    print(r);
  } else {
    unprinted_ = r;
  }
  if (step.result.clipped.found_inf.item<double>() != 0) {
    throw Error(
        fmt::format("step {}: loss {}, gradient norm {}: not finite; the update was skipped "
                    "and the run stopped",
                    r.step, unsigned_nan(r.loss), unsigned_nan(*r.grad_norm)),
        "lower optim.lr, or resume from the last checkpoint");
  }
}

void Reporter::print(const report::StepRecord& record) {
  unprinted_.reset();
  console_.step(record);
  if (tensorboard_) tensorboard_->write(record);
  memory_.reset_peak();
}

void Reporter::finish() {
  flush();
  if (unprinted_) print(report::StepRecord(*unprinted_));
}

void Reporter::validation(report::ValidationRecord record) {
  record.memory = memory_use(memory_.read());
  log_.write(record);
  console_.validation(record);
  if (tensorboard_) tensorboard_->write(record);
}

}  // namespace plimsoll::trainer
