#include "plimsoll/trainer/trainer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/units.h"
#include "plimsoll/checkpoint/steps.h"
#include "plimsoll/config/config.h"
#include "plimsoll/device/choose.h"
#include "plimsoll/device/host_allocator.h"
#include "plimsoll/device/host_memory.h"
#include "plimsoll/device/peak_flops.h"
#include "plimsoll/generate/generator.h"
#include "plimsoll/report/meters.h"
#include "plimsoll/text/stream_decoder.h"
#include "plimsoll/trainer/interrupt.h"
#include "plimsoll/trainer/memory_need.h"
#include "plimsoll/trainer/reporter.h"
#include "plimsoll/trainer/run_files.h"
#include "plimsoll/trainer/saver.h"
#include "plimsoll/trainer/session.h"
#include "plimsoll/trainer/step.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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

// Absent when a signal came in the middle.
std::optional<report::ValidationRecord> run_validation(const Session& session) {
  const RunConfig& c = session.config;
  Clock::time_point begin = Clock::now();
  data::BatchStream stream(session.corpus.validation, {.tokens_per_batch = c.train.tokens_per_batch,
                                                       .max_context = c.train.max_context,
                                                       .shuffle = false,
                                                       .repeat = false,
                                                       .pad_last = true});
  ValidationResult v = validate(session.decoder, std::move(stream), c.train.validation_tokens,
                                c.train.loss_chunk, &InterruptScope::interrupted);
  if (InterruptScope::interrupted()) return std::nullopt;
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

// Threads, determinism, plugins and the allocator of CPU tensors: all before the first tensor.
device::Choice prepare_device(const RunConfig& config) {
  if (config.device.threads) at::set_num_threads(static_cast<int>(*config.device.threads));
  if (config.train.deterministic) {
    at::globalContext().setDeterministicAlgorithms(true, false);
    // Memory that nobody wrote is never read here; filling it would only cost time.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  for (const std::string& plugin : config.device.plugins) device::load_plugin(plugin);
  device::Choice choice = device::choose(config.device.name);
  device::install_host_allocator();
  // What the machine does not have ends in an error of ours rather than in the kernel's choice of a
  // victim.
  std::optional<int64_t> limit = device::host_memory().capacity();
  if (config.memory.host_limit) limit = static_cast<int64_t>(*config.memory.host_limit);
  device::set_host_allocator_limit(limit);
  return choice;
}

data::OnBuildProgress report_tokenising(report::Console& console) {
  return [&console, said = false](const data::BuildProgress& p) mutable {
    if (said) return;
    said = true;
    console.line(fmt::format("tokenising {} (once; kept in the cache)", p.file));
  };
}

std::optional<double> peak(const Session& session) {
  std::optional<device::Peak> found = device::peak_flops(session.device, session.compute);
  if (!found) return std::nullopt;
  return found->flops;
}

// A start on a busy machine may have kept too low a peak; now nobody waits.
void remeasure_peak(const Session& session) {
  if (session.device.is_cpu()) device::remeasured_cpu_peak_flops(session.compute);
}

std::string describe_model(const RunConfig& config, at::ScalarType compute) {
  const model::DecoderConfig m = config.model.resolve();
  return fmt::format("model: {} {}, {} parameters; {} arithmetic, {} threads", m.architecture,
                     m.flavor, format_count(m.parameter_count()),
                     compute == at::kBFloat16 ? "bf16" : "fp32", at::get_num_threads());
}

// Where the run lives and from where it goes on.
void describe_run(const RunFolder& folder, int64_t last, report::Console& console) {
  for (const std::string& note : folder.notes) console.line(note);
  std::string line = "run: " + folder.path.string();
  if (folder.resume_step) line += fmt::format(", continued after step {}", *folder.resume_step);
  console.line(line);
  if (folder.resume_step && *folder.resume_step >= last) {
    console.line(
        fmt::format("step {} of {} is done, nothing is left to train; to go on raise train.steps",
                    *folder.resume_step, last));
  }
}

int64_t last_step(const RunConfig& config) {
  return std::min(config.train.steps, config.train.stop_after.value_or(config.train.steps));
}

// A run that could not make one step has trained nothing.
void require_a_step(const Session& session) {
  if (session.progress.step > 0) return;
  const TrainSection& t = session.config.train;
  throw Error(fmt::format("the data ended before the first step: {} tokens, one step takes {}",
                          format_count(session.corpus.train.tokens()),
                          format_count(t.batches_per_step() * t.tokens_per_batch)),
              "set data.repeat = true, add text, or lower train.tokens_per_batch");
}

void run_steps(Session& session, Reporter& reporter, Saver& saver, RunFiles& files,
               report::Console& console) {
  const TrainSection& t = session.config.train;
  const int64_t last = last_step(session.config);
  console.start(session.progress.step, last);
  while (session.progress.step < last && !InterruptScope::interrupted()) {
    Clock::time_point begin = Clock::now();
    std::vector<DeviceBatch> batches = fetch(session);
    if (batches.empty()) {
      require_a_step(session);
      console.line(fmt::format("the data ended after step {}", session.progress.step));
      break;
    }
    const double data_seconds = seconds_since(begin);
    PendingStep step = run_step(session, batches);
    step.record.seconds = seconds_since(begin);
    step.record.data_seconds = data_seconds;
    reporter.add(std::move(step));
    files.require_written();

    const int64_t done = session.progress.step;
    if (session.corpus.validation.size() > 0 && t.validation_interval > 0 &&
        done % t.validation_interval == 0 && done < last) {
      if (const auto record = run_validation(session)) reporter.validation(*record);
    }
    if (saver.due(done)) {
      reporter.flush();  // what is not finite must not be saved
      saver.save(session);
    }
  }
  reporter.finish();
  files.require_written();
  console.finish();
}

void finish_run(const Session& session, Reporter& reporter, report::Console& console,
                TrainResult& result) {
  if (session.corpus.validation.size() > 0) {
    const report::ValidationRecord record = run_validation(session).value();
    result.validation_loss = record.loss;
    reporter.validation(record);
    console.line(fmt::format(
        "validation loss {:.4f} nats a token; the unigram entropy of the corpus is {:.4f}, what a "
        "model without context would lose on the held-out text {:.4f}",
        record.loss, data::unigram_entropy(session.corpus.train),
        data::unigram_cross_entropy(session.corpus.validation, session.corpus.train)));
  }
  if (session.config.train.sample_tokens > 0) print_sample(session, console);
}

}  // namespace

TrainResult train(const RunConfig& config, const Resume& resume, report::Console& console) {
  const device::Choice choice = prepare_device(config);
  console.line(choice.line());
  check_run_folder(config.run.dir, resume);
  const at::ScalarType compute = compute_dtype(config.train.precision, choice.device);
  console.line(describe_model(config, compute));
  require_room(memory_need(config, compute), choice.device, config);
  std::unique_ptr<Session> session =
      open_session(config, choice.device, report_tokenising(console));
  RunFolder folder = open_run_folder(config.run.dir, config.run.name, resume);
  if (folder.resume_step) {
    restore(*session, checkpoint::open_checkpoint(
                          checkpoint::step_path(folder.checkpoints(), *folder.resume_step)));
    const auto later = set_aside_later(folder.checkpoints(), *folder.resume_step);
    if (!later.empty()) {
      console.line(fmt::format("later checkpoints set aside as abandoned-step-N: {}",
                               fmt::join(later, ", ")));
    }
  }
  settle(session->config, folder.path);
  RunFiles files(session->config, folder.path);
  console.line(describe_data(*session));
  describe_run(folder, last_step(config), console);

  Reporter reporter(*session, folder.path, peak(*session), console);
  Saver saver(config.checkpoint, folder.checkpoints(), console, folder.resume_step);
  std::optional<InterruptScope> interrupts(std::in_place);
  TrainResult result{.folder = folder.path};
  run_steps(*session, reporter, saver, files, console);

  result.interrupted = InterruptScope::interrupted();
  result.step = session->progress.step;
  result.loss = reporter.last_loss();
  if (config.checkpoint.last) saver.save(*session);
  saver.finish();
  result.resumable = saver.last_saved();
  interrupts.reset();  // all is saved: from here one signal ends the process
  if (!result.interrupted) {
    finish_run(*session, reporter, console, result);
    remeasure_peak(*session);
  }
  if (auto saved = saver.last_saved()) {
    console.line(fmt::format("checkpoint: {}",
                             checkpoint::step_path(folder.checkpoints(), *saved).string()));
  }
  std::error_code ignored;
  if (!std::filesystem::exists(folder.path / "config.toml", ignored)) {
    throw Error(
        fmt::format("{} was removed while the run trained; its log is lost", folder.path.string()));
  }
  console.line(fmt::format("run folder: {}", folder.path.string()));
  return result;
}

}  // namespace plimsoll::trainer
