// step_profile [--smoke] [--precision auto|bf16|fp32] [--steps N] [--threads N]
// Where a training step of the debug model (8 x 2,048 tokens) spends its time: shares of matrix
// products, attention, other operators, allocation, data and what lies outside all of them; the
// trainer's phases; the slowest operators; and how far loading data hides behind the arithmetic.
// The steps are the trainer's own, taken apart; they are run once without the clocks on operators,
// to show what those cost. The last line is JSON.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/op_recorder.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/data/corpus.h"
#include "plimsoll/data/prefetch.h"
#include "plimsoll/device/host_allocator.h"
#include "plimsoll/model/decoder.h"
#include "plimsoll/optim/adamw.h"
#include "plimsoll/trainer/session.h"
#include "plimsoll/trainer/step.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string precision = "auto";
  int64_t rows = 8, length = 2048, warmup = 2, steps = 5, threads = 0;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--smoke") {
      o.rows = 2;
      o.length = 64;
      o.warmup = 1;
      o.steps = 2;
      continue;
    }
    if (word == "--precision") {
      o.precision = value;
    } else if (word == "--steps") {
      o.steps = std::clamp(std::atol(value), 1L, 10000L);
    } else if (word == "--threads") {
      o.threads = std::clamp(std::atol(value), 1L, 1024L);
    } else {
      throw UsageError(fmt::format("unknown option '{}'", word));
    }
    ++i;
  }
  if (o.precision != "auto" && o.precision != "bf16" && o.precision != "fp32") {
    throw UsageError("--precision must be auto, bf16 or fp32");
  }
  return o;
}

/// A folder that is gone with it.
class TempFolder {
 public:
  TempFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "plimsoll-profile-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("no temporary folder " + name);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Lines of random letters, a token each, so that a document fills one context exactly.
data::Corpus make_corpus(const Options& o, const std::filesystem::path& folder) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> letter('a', 'z');
  std::string text;
  for (int64_t line = 0; line < 8 * o.rows; ++line) {
    for (int64_t t = 0; t <= o.length; ++t) text += static_cast<char>(letter(random));
    text += '\n';
  }
  write_file_atomic(folder / "corpus.txt", text);
  data::DataConfig config;
  config.files = {(folder / "corpus.txt").string()};
  config.text_documents = "line";
  config.add_bos = config.add_eos = false;
  config.cache_dir = (folder / "cache").string();
  data::TokenizerView letters;
  letters.encode = [](std::string_view line, std::vector<int32_t>& ids) {
    ids.assign(line.begin(), line.end());
  };
  letters.fingerprint = "letters";
  letters.vocab_size = 128;
  return data::open_corpus(config, letters, 1);
}

/// The trainer's parts and the clock on the thread that makes batches.
struct Setup {
  model::Decoder decoder;
  std::unique_ptr<optim::AdamW> optimizer;
  std::shared_ptr<std::atomic<double>> worked = std::make_shared<std::atomic<double>>(0);
  std::unique_ptr<data::Prefetcher> batches;
};

Setup make_setup(const Options& o, at::ScalarType compute, const data::Corpus& corpus) {
  Setup s{.decoder = model::build(model::preset("llama3", "debugmodel"),
                                  {.compute = compute, .max_context = o.length})};
  s.optimizer = std::make_unique<optim::AdamW>(model::parameters(s.decoder), optim::OptimConfig());
  auto stream = std::make_shared<data::BatchStream>(
      corpus.train, data::StreamConfig{
                        .tokens_per_batch = o.rows * o.length, .max_context = o.length, .seed = 1});
  data::StreamState start = stream->state();
  auto source = [stream, worked = s.worked](data::Batch& batch, data::StreamState& state) {
    const Clock::time_point begin = Clock::now();
    const bool made = stream->next(batch);
    state = stream->state();
    worked->fetch_add(std::chrono::duration<double>(Clock::now() - begin).count());
    return made;
  };
  s.batches =
      std::make_unique<data::Prefetcher>(source, std::move(start), data::DataConfig().prefetch);
  return s;
}

constexpr const char* kPhases[] = {"fetch",    "to_device", "zero_grad", "forward",
                                   "backward", "clip",      "update",    "read loss"};
constexpr size_t kDataPhases = 2;  // the first of them

/// Seconds of each phase, of all steps together.
using PhaseSeconds = std::vector<double>;

// trainer::fetch and trainer::train_step, a phase at a time.
void run_step(Setup& s, bench::OpRecorder* recorder, PhaseSeconds& seconds) {
  size_t phase = 0;
  Clock::time_point begin = Clock::now();
  if (recorder != nullptr) recorder->phase(kPhases[0]);
  auto next_phase = [&] {
    const Clock::time_point now = Clock::now();
    seconds[phase++] += std::chrono::duration<double>(now - begin).count();
    begin = now;
    if (recorder != nullptr && phase < seconds.size()) recorder->phase(kPhases[phase]);
  };
  data::Batch row;
  if (!s.batches->next(row)) throw Error("the data ended");
  next_phase();
  const trainer::DeviceBatch batch = trainer::to_device(row, c10::kCPU);
  next_phase();
  s.optimizer->zero_grad();
  next_phase();
  at::Tensor loss = trainer::loss_sum(s.decoder, batch, 2048);
  loss = loss * (1.0 / static_cast<double>(batch.valid_tokens));
  next_phase();
  loss.backward();
  next_phase();
  const optim::Clipped clipped = s.optimizer->clip(loss.detach());
  next_phase();
  s.optimizer->update(1.0, clipped);
  next_phase();
  loss.item<double>();
  next_phase();
}

PhaseSeconds run_steps(Setup& s, int64_t steps, bench::OpRecorder* recorder) {
  PhaseSeconds seconds(std::size(kPhases));
  for (int64_t i = 0; i < steps; ++i) run_step(s, recorder, seconds);
  return seconds;
}

double sum(const PhaseSeconds& seconds) {
  double total = 0;
  for (double s : seconds) total += s;
  return total;
}

bool starts(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

const char* group_of(std::string_view op) {
  for (const char* name :
       {"aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "aten::matmul"}) {
    if (starts(op, name)) return "matmul";
  }
  if (starts(op, "plimsoll::attention")) return "attention";
  if (starts(op, "aten::empty")) return "allocation";
  return "other";
}

/// Seconds of each group, of all steps together; they add up to the phases.
nlohmann::ordered_json group_seconds(const bench::OpTimes& times, const PhaseSeconds& phases) {
  std::map<std::string, double> groups;
  double data = 0;
  for (size_t i = 0; i < kDataPhases; ++i) data += phases[i];
  for (const auto& [key, op] : times.ops) {
    const bool of_data = key.first == kPhases[0] || key.first == kPhases[1];
    if (!of_data) groups[group_of(key.second)] += op.seconds;
  }
  groups["allocation"] += times.allocation.seconds;
  double known = data;
  for (const auto& [name, seconds] : groups) known += seconds;
  nlohmann::ordered_json out;
  for (const char* name : {"matmul", "attention", "other", "allocation"}) out[name] = groups[name];
  out["data"] = data;
  out["outside"] = std::max(0.0, sum(phases) - known);
  return out;
}

void print_rows(const char* title, const std::vector<std::pair<std::string, double>>& rows,
                double total, int64_t steps) {
  fmt::print("{:<58} {:>10} {:>7}\n", title, "ms a step", "share");
  for (const auto& [name, seconds] : rows) {
    fmt::print("  {:<56} {:>10.3f} {:>6.1f}%\n", name, seconds * 1e3 / static_cast<double>(steps),
               100 * seconds / total);
  }
  fmt::print("\n");
}

/// Slowest first.
std::vector<std::pair<std::string, bench::OpTime>> ranked(const bench::OpTimes& times) {
  std::vector<std::pair<std::string, bench::OpTime>> out;
  for (const auto& [key, op] : times.ops) out.emplace_back(key.first + " " + key.second, op);
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return out;
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void profile(const Options& o) {
  if (o.threads > 0) at::set_num_threads(static_cast<int>(o.threads));
  device::install_host_allocator();
  const TempFolder folder;
  const data::Corpus corpus = make_corpus(o, folder.path());
  const at::ScalarType compute = trainer::compute_dtype(o.precision, c10::kCPU);
  Setup s = make_setup(o, compute, corpus);

  run_steps(s, o.warmup, nullptr);
  const int64_t faults = page_faults();
  device::reset_host_allocator_stats();
  const PhaseSeconds plain = run_steps(s, o.steps, nullptr);
  const int64_t faults_a_step = (page_faults() - faults) / o.steps;
  const device::HostAllocatorStats memory = device::host_allocator_stats();

  bench::OpRecorder recorder;
  run_steps(s, 1, &recorder);  // what the clocks themselves have to warm
  recorder.reset();
  const double waited = s.batches->waited_seconds(), worked = s.worked->load();
  const PhaseSeconds phases = run_steps(s, o.steps, &recorder);
  const double waits = s.batches->waited_seconds() - waited, work = s.worked->load() - worked;
  const double overlap = work > 0 ? std::clamp(1 - waits / work, 0.0, 1.0) : 1.0;

  const double total = sum(phases), steps = static_cast<double>(o.steps);
  const double tokens = static_cast<double>(o.rows * o.length);
  const nlohmann::ordered_json groups = group_seconds(recorder.times(), phases);
  nlohmann::ordered_json shares, phase_ms;
  std::vector<std::pair<std::string, double>> rows;
  for (const auto& [name, seconds] : groups.items()) {
    shares[name] = std::round(seconds.get<double>() / total * 1e4) / 1e4;
    rows.emplace_back(name, seconds.get<double>());
  }
  fmt::print("debug model, {} x {} tokens, {}, {} threads, {} steps\n\n", o.rows, o.length,
             compute == at::kBFloat16 ? "bf16" : "fp32", at::get_num_threads(), o.steps);
  print_rows("share of a step", rows, total, o.steps);
  rows.clear();
  for (size_t i = 0; i < phases.size(); ++i) {
    rows.emplace_back(kPhases[i], phases[i]);
    phase_ms[kPhases[i]] = std::round(plain[i] / steps * 1e6) / 1e3;
  }
  print_rows("phase", rows, total, o.steps);
  rows.clear();
  const auto slowest = ranked(recorder.times());
  for (size_t i = 0; i < std::min<size_t>(slowest.size(), 24); ++i) {
    const bench::OpTime& op = slowest[i].second;
    rows.emplace_back(fmt::format("{} ({}x)", slowest[i].first, op.calls / o.steps), op.seconds);
  }
  print_rows("operator, itself", rows, total, o.steps);

  // Forward and backward take 6 operations a weight and token; all weights but the embedding's.
  const model::DecoderConfig& m = s.decoder.config;
  const double products =
      6.0 * tokens * static_cast<double>(m.parameter_count() - (m.tied ? 0 : m.embedding_count()));
  const nlohmann::ordered_json result{
      {"bench", "step_profile"},
      {"precision", compute == at::kBFloat16 ? "bf16" : "fp32"},
      {"shares", shares},
      {"overlap", std::round(overlap * 1e4) / 1e4},
      {"data_worked_ms", work / steps * 1e3},
      {"data_waited_ms", waits / steps * 1e3},
      {"step_ms", sum(plain) / steps * 1e3},
      {"profiled_ms", total / steps * 1e3},
      {"tokens_per_second", tokens * steps / sum(plain)},
      {"matmul_gflops", products * steps / groups["matmul"].get<double>() / 1e9},
      {"phase_ms", phase_ms},
      {"slowest", slowest.empty() ? "" : slowest.front().first},
      {"page_faults", faults_a_step},
      {"allocations", (memory.hits + memory.misses) / o.steps},
      {"allocations_from_system", memory.misses / o.steps},
      {"threads", at::get_num_threads()},
      {"repetitions", o.steps}};
  fmt::print("{}\n", result.dump());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    profile(parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
