#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "cli/inspect.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/units.h"
#include "plimsoll/checkpoint/inspect.h"
#include "plimsoll/config/config.h"
#include "plimsoll/report/metrics_log.h"
#include "plimsoll/report/tensorboard.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/trainer/run_config.h"

namespace plimsoll::cli {
namespace {
namespace fs = std::filesystem;

// The first thing found wrong; it ends the description.
class Problem {
 public:
  void add(const std::string& what) {
    if (text_.empty()) text_ = what.substr(0, what.find('\n'));
  }
  /// Runs `work`; what it throws is printed after `label` and kept.
  template <class Work>
  void guard(const char* label, Work work) {
    try {
      work();
    } catch (const Error& e) {
      fmt::print("{}: {}\n", label, e.what());
      add(e.what());
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::vector<fs::path> entries(const fs::path& folder, const char* prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.string(), y = b.string();
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  return found;
}

// The checkpoints of `root`, one a line; how many there are.
size_t list_checkpoints(const fs::path& root, const char* indent, Problem& problem) {
  std::vector<fs::path> folders = entries(root, "step-");
  // Those with a dot in the name are being written, or were when their process was killed.
  std::erase_if(folders, [](const fs::path& path) {
    return path.filename().string().find('.') != std::string::npos;
  });
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    const checkpoint::Inspection found = checkpoint::inspect(folder);
    fmt::print("{}{}: {}\n", indent, name, found.whole ? "whole" : found.problem);
    if (!found.whole) problem.add(name + " is damaged");
  }
  for (const fs::path& folder : entries(root, "abandoned-step-")) {
    fmt::print("{}{}: set aside when the run went back to an earlier step\n", indent,
               folder.filename().string());
  }
  return folders.size();
}

void say_model(const trainer::RunConfig& config) {
  const model::DecoderConfig m = config.model.resolve();
  fmt::print("model: {} {}, {} parameters\n", m.architecture, m.flavor,
             format_count(m.parameter_count()));
  fmt::print("  dim {}, layers {}, heads {}, kv_heads {}, head_dim {}, ffn {}, vocab {}{}\n", m.dim,
             m.layers, m.heads, m.kv_heads, m.head_dim, m.ffn, m.vocab, m.tied ? ", tied" : "");
}

void say_data(const data::DataConfig& data) {
  fmt::print("data: {}\n", fmt::join(data.files, ", "));
  if (data.validation_fraction > 0) {
    fmt::print("held out: {:g} of the documents\n", data.validation_fraction);
  } else {
    fmt::print("held out: {}\n", data.validation_files.empty()
                                     ? "nothing"
                                     : fmt::format("{}", fmt::join(data.validation_files, ", ")));
  }
}

// Records of a log that need not be there.
template <class Record>
std::vector<Record> read_log(const fs::path& path, std::vector<Record> (*read)(const fs::path&)) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::vector<Record> records = read(path);
  if (const uint64_t rest = fs::file_size(path) - report::whole_size(path); rest > 0) {
    throw Error(
        fmt::format("{}: the last {} bytes are no whole record; a resumed run cuts them off",
                    path.string(), rest));
  }
  return records;
}

void say_progress(const fs::path& folder, const std::optional<int64_t>& steps, Problem& problem) {
  problem.guard("steps", [&] {
    const auto records = read_log(folder / "metrics.jsonl", &report::read_metrics);
    fmt::print("step: {}{}\n", records.empty() ? 0 : records.back().step,
               steps ? fmt::format(" of {}", *steps) : "");
    if (records.empty()) return;
    fmt::print("tokens seen: {}\n", format_count(records.back().tokens_seen));
    fmt::print("train loss: {:.5f} at step {}\n", records.back().loss, records.back().step);
  });
  problem.guard("validations", [&] {
    const auto records = read_log(folder / "validation.jsonl", &report::read_validations);
    if (records.empty()) return;
    fmt::print("validation loss: {:.5f} at step {}\n", records.back().loss, records.back().step);
  });
  for (const fs::path& file : entries(folder, "events.out.tfevents")) {
    const std::string found = report::check_events(MappedFile(file).text()).problem;
    if (found.empty()) continue;
    fmt::print("{}: {}\n", file.filename().string(), found);
    problem.add(fmt::format("{}: {}", file.filename().string(), found));
  }
}

}  // namespace

int inspect_run(const fs::path& folder) {
  fmt::print("{}: run folder\n", folder.string());
  Problem problem;
  std::optional<int64_t> steps;
  std::string tokenizer;
  problem.guard("recipe", [&] {
    trainer::RunConfig config;
    config::load(folder / "config.toml", {}, config);
    say_model(config);
    say_data(config.data);
    steps = config.train.steps;
    tokenizer = config.data.tokenizer;
  });
  problem.guard("tokenizer", [&] {
    const int32_t ids = text::Tokenizer::load(folder).size();
    fmt::print("tokenizer: {} ids{}\n", format_count(ids),
               tokenizer.empty() ? "" : ", a copy of " + tokenizer);
  });
  say_progress(folder, steps, problem);
  std::error_code error;
  const fs::path root = folder / "checkpoints";
  if (entries(root, "").empty()) {
    fmt::print("checkpoints: none\n");
  } else {
    fmt::print("checkpoints:\n");
    list_checkpoints(root, "  ", problem);
  }
  return say_whole(problem.text());
}

int inspect_checkpoints(const fs::path& root) {
  fmt::print("{}: folder of checkpoints\n", root.string());
  Problem problem;
  if (list_checkpoints(root, "", problem) == 0) problem.add("no complete checkpoint");
  return say_whole(problem.text());
}

}  // namespace plimsoll::cli
