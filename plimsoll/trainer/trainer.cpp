#include "plimsoll/trainer/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <deque>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/units.h"
#include "plimsoll/checkpoint/async_saver.h"
#include "plimsoll/config/config.h"
#include "plimsoll/generate/generator.h"
#include "plimsoll/report/meters.h"
#include "plimsoll/report/metrics_log.h"
#include "plimsoll/report/tensorboard.h"
#include "plimsoll/text/stream_decoder.h"
#include "plimsoll/trainer/interrupt.h"
#include "plimsoll/trainer/session.h"
#include "plimsoll/trainer/step.h"
#include "plimsoll/version.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A step whose numbers the host has not read yet.
struct PendingStep {
  report::StepRecord record;
  StepResult result;
};

// The run's reports: reads device numbers when they are due, and hands plain records on.
class Reporter {
 public:
  Reporter(const Session& session, const std::filesystem::path& folder, report::Console& console)
      : session_(session), console_(console), log_(folder, session.progress.step) {
    if (session.config.metrics.tensorboard) tensorboard_.emplace(folder, session.progress.step);
    const model::DecoderConfig& m = session.decoder.config;
    flops_ = report::flops_per_token({.params = m.parameter_count(),
                                      .embedding_params = m.tied ? 0 : m.embedding_count(),
                                      .layers = m.layers,
                                      .heads = m.heads,
                                      .head_dim = m.head_dim,
                                      .seq_len = session.config.train.max_context});
  }

  void add(PendingStep step) {
    pending_.push_back(std::move(step));
    // On the CPU reading a number waits for nothing.
    const int64_t done = pending_.back().record.step;
    if (session_.device.is_cpu() || done == 1 || done % session_.config.metrics.interval == 0)
      flush();
  }

  // Reads what is pending. Throws Error for the first step that was not finite.
  void flush() {
    while (!pending_.empty()) {
      PendingStep step = std::move(pending_.front());
      pending_.pop_front();
      report::StepRecord& r = step.record;
      r.loss = step.result.loss.item<double>();
      r.grad_norm = step.result.clipped.norm.item<double>();
      r.tokens_per_second = report::tokens_per_second(r.tokens, r.seconds);
      r.tflops = report::tflops(flops_, r.tokens_per_second);
      last_loss_ = r.loss;
      log_.write(r);
      console_.progress(r);
      if (r.step == 1 || r.step % session_.config.metrics.interval == 0) {
        console_.step(r);
        if (tensorboard_) tensorboard_->write(r);
      }
      if (step.result.clipped.found_inf.item<double>() != 0) {
        throw Error(
            fmt::format(
                "step {}: loss {}, gradient norm {}: not finite; the update was skipped and "
                "the run stopped",
                r.step, r.loss, *r.grad_norm),
            "lower optim.lr, or resume from the last checkpoint");
      }
    }
  }

  void validation(const report::ValidationRecord& record) {
    log_.write(record);
    console_.validation(record);
    if (tensorboard_) tensorboard_->write(record);
  }

  double last_loss() const { return last_loss_; }

 private:
  const Session& session_;
  report::Console& console_;
  report::MetricsLog log_;
  std::optional<report::TensorBoard> tensorboard_;
  int64_t flops_ = 0;
  std::deque<PendingStep> pending_;
  double last_loss_ = 0;
};

// Saves when due; decides what a failed save means.
class Saver {
 public:
  Saver(const CheckpointSection& config, const std::filesystem::path& root,
        report::Console& console)
      : config_(config), console_(console), saver_(root, config.keep) {
    for (const std::string& name : checkpoint::remove_stale(root)) {
      console.line(fmt::format("removed an unfinished checkpoint: {}", name));
    }
  }

  bool due(int64_t step) const { return config_.interval > 0 && step % config_.interval == 0; }

  void save(const Session& session) {
    if (submitted_ == session.progress.step) return;
    guarded([&] { saver_.submit(snapshot(session)); });
    submitted_ = session.progress.step;
    if (!config_.async) finish();
  }

  void finish() {
    guarded([&] { saver_.wait(); });
  }

  std::optional<int64_t> last_saved() const { return saver_.last_saved(); }

 private:
  template <typename Action>
  void guarded(const Action& action) {
    try {
      action();
    } catch (const Error& e) {
      if (config_.on_error == "stop") throw;
      console_.line(
          fmt::format("checkpoint not saved: {} (going on, checkpoint.on_error = "
                      "\"continue\")",
                      e.what()));
    }
  }

  CheckpointSection config_;
  report::Console& console_;
  checkpoint::AsyncSaver saver_;
  int64_t submitted_ = -1;
};

// The micro-batches of one step; fewer than asked for (then the step is not run) at the data's end.
std::vector<DeviceBatch> fetch(Session& session) {
  std::vector<DeviceBatch> batches;
  data::Batch batch;
  for (int64_t i = 0; i < session.config.train.batches_per_step(); ++i) {
    if (!session.batches->next(batch)) return {};
    batches.push_back(to_device(batch, session.device));
  }
  return batches;
}

PendingStep run_step(Session& session, const std::vector<DeviceBatch>& batches) {
  const RunConfig& c = session.config;
  PendingStep step;
  const double factor = optim::lr_factor(c.optim.schedule, session.progress.step, c.train.steps);
  step.result =
      train_step(session.decoder, *session.optimizer, batches, factor, c.train.loss_chunk);
  session.progress.step += 1;
  for (const DeviceBatch& b : batches) session.progress.tokens_seen += b.targets.numel();
  step.record.step = session.progress.step;
  step.record.lr = c.optim.lr * factor;
  step.record.tokens = static_cast<int64_t>(batches.size()) * c.train.tokens_per_batch;
  step.record.tokens_seen = session.progress.tokens_seen;
  return step;
}

report::ValidationRecord run_validation(const Session& session) {
  const RunConfig& c = session.config;
  Clock::time_point begin = Clock::now();
  data::BatchStream stream(session.corpus.validation, {.tokens_per_batch = c.train.tokens_per_batch,
                                                       .max_context = c.train.max_context,
                                                       .shuffle = false,
                                                       .repeat = false,
                                                       .pad_last = true});
  ValidationResult v =
      validate(session.decoder, std::move(stream), c.train.validation_tokens, c.train.loss_chunk);
  report::ValidationRecord record;
  record.step = session.progress.step;
  record.loss = v.loss;
  record.tokens = v.tokens;
  record.seconds = seconds_since(begin);
  record.tokens_per_second = report::tokens_per_second(v.tokens, record.seconds);
  return record;
}

void print_sample(const Session& session, report::Console& console) {
  const TrainSection& t = session.config.train;
  generate::Request request;
  if (auto bos = session.tokenizer.bos()) request.prompt.push_back(*bos);
  session.tokenizer.encode(t.sample_prompt, request.prompt);
  if (request.prompt.empty()) return;
  request.max_tokens = t.sample_tokens;
  request.stop = session.tokenizer.eos();
  request.sampling = {
      .temperature = 0.8, .top_p = 0.95, .seed = static_cast<uint64_t>(session.config.run.seed)};
  text::StreamDecoder decoder(session.tokenizer);
  std::string sample = t.sample_prompt;
  generate::generate(session.decoder, request, [&](int32_t id) {
    sample += decoder.feed(id);
    return true;
  });
  console.line("sample:\n" + sample + decoder.finish());
}

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const fs::path source = fs::is_directory(from) ? from : from.parent_path();
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::path file =
        !fs::is_directory(from) && std::string(name) == "tokenizer.json" ? from : source / name;
    if (fs::exists(file)) write_file_atomic(folder / name, read_file(file));
  }
}

std::string describe_data(const Session& s) {
  std::string text =
      fmt::format("data: {} documents, {} tokens", format_count(s.corpus.train.size()),
                  format_count(s.corpus.train.tokens()));
  if (s.corpus.validation.size() > 0) {
    text +=
        fmt::format("; held out {} documents, {} tokens", format_count(s.corpus.validation.size()),
                    format_count(s.corpus.validation.tokens()));
  }
  const data::TokenStats& stats = s.corpus.train.store().stats();
  if (stats.skipped_lines > 0) text += fmt::format("; {} bad lines skipped", stats.skipped_lines);
  if (stats.bad_utf8 > 0) text += fmt::format("; {} documents repaired", stats.bad_utf8);
  return text;
}

}  // namespace

TrainResult train(const RunConfig& config, const Resume& resume, report::Console& console) {
  if (config.device.threads) at::set_num_threads(static_cast<int>(*config.device.threads));
  const c10::Device device(c10::kCPU);
  std::unique_ptr<Session> session = open_session(config, device);
  RunFolder folder = open_run_folder(config.run.dir, config.run.name, resume);
  if (folder.resume_step) {
    restore(*session, checkpoint::open_checkpoint(
                          checkpoint::step_path(folder.checkpoints(), *folder.resume_step)));
  }
  session->config.run.dir = folder.path.string();
  RunConfig resolved = session->config;
  write_file_atomic(folder.path / "config.toml", config::to_toml(resolved));
  copy_tokenizer(config.data.tokenizer, folder.path);

  console.line(describe_data(*session));
  console.line(fmt::format("model: {} {}, {} parameters, {} arithmetic, {} threads",
                           session->decoder.config.architecture, session->decoder.config.flavor,
                           format_count(session->decoder.config.parameter_count()),
                           session->compute == at::kBFloat16 ? "bf16" : "fp32",
                           at::get_num_threads()));
  console.line(fmt::format(
      "run: {}{}", folder.path.string(),
      folder.resume_step ? fmt::format(", continued after step {}", *folder.resume_step) : ""));

  Reporter reporter(*session, folder.path, console);
  Saver saver(config.checkpoint, folder.checkpoints(), console);
  InterruptScope interrupts;
  const int64_t last = std::min(config.train.steps, config.train.stop_after.value_or(INT64_MAX));
  const bool validates = session->corpus.validation.size() > 0;
  console.start(session->progress.step, last);

  TrainResult result;
  result.folder = folder.path;
  bool validated = false;
  while (session->progress.step < last && !InterruptScope::interrupted()) {
    Clock::time_point begin = Clock::now();
    std::vector<DeviceBatch> batches = fetch(*session);
    if (batches.empty()) {
      console.line(fmt::format("the data ended after step {}", session->progress.step));
      break;
    }
    const double data_seconds = seconds_since(begin);
    PendingStep step = run_step(*session, batches);
    step.record.seconds = seconds_since(begin);
    step.record.data_seconds = data_seconds;
    reporter.add(std::move(step));
    validated = validates && config.train.validation_interval > 0 &&
                session->progress.step % config.train.validation_interval == 0;
    if (validated) {
      report::ValidationRecord record = run_validation(*session);
      result.validation_loss = record.loss;
      reporter.validation(record);
    }
    if (saver.due(session->progress.step)) {
      reporter.flush();  // a step that was not finite must not be saved
      saver.save(*session);
    }
  }
  reporter.flush();
  result.interrupted = InterruptScope::interrupted();
  result.step = session->progress.step;
  result.loss = reporter.last_loss();
  console.finish();
  if (config.checkpoint.last) saver.save(*session);
  saver.finish();

  if (!result.interrupted) {
    if (validates) {
      if (!validated) {
        report::ValidationRecord record = run_validation(*session);
        result.validation_loss = record.loss;
        reporter.validation(record);
      }
      console.line(fmt::format(
          "validation loss {:.4f} nats a token; a model that ignores context would have {:.4f} "
          "(unigram entropy of the held-out text {:.4f})",
          *result.validation_loss,
          data::unigram_cross_entropy(session->corpus.validation, session->corpus.train),
          data::unigram_entropy(session->corpus.validation)));
    }
    if (config.train.sample_tokens > 0) print_sample(*session, console);
  }
  if (auto saved = saver.last_saved()) {
    console.line(fmt::format("checkpoint: {}",
                             checkpoint::step_path(folder.checkpoints(), *saved).string()));
  }
  console.line(fmt::format("run folder: {}", folder.path.string()));
  return result;
}

}  // namespace plimsoll::trainer
