#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "cli/inspect.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/units.h"
#include "plimsoll/checkpoint/folder.h"
#include "plimsoll/checkpoint/inspect.h"
#include "plimsoll/config/config.h"
#include "plimsoll/report/metrics_log.h"
#include "plimsoll/report/tensorboard.h"
#include "plimsoll/trainer/run_config.h"

namespace plimsoll::cli {
namespace {
namespace fs = std::filesystem;

int inspect_state(const fs::path& path) {
  checkpoint::State state;
  try {
    state = checkpoint::read_state(path);
  } catch (const Error& e) {
    fmt::print("{}: the state of a checkpoint\n", path.string());
    return say_whole(e.what());
  }
  fmt::print("{}: the state of a checkpoint of step {}\n", path.string(), state.step);
  for (const auto& [name, file] : state.files.items()) {
    const bool known = file.is_object() && file.contains("xxh3") && file.contains("bytes");
    if (known) {
      fmt::print("file: {}, {} bytes, checksums of {} tensors\n", name, file["bytes"].dump(),
                 file["xxh3"].size());
    }
  }
  fmt::print("{}", checkpoint::describe_state(state.state));
  return say_whole("");
}

int inspect_done(const fs::path& path) {
  fmt::print("{}: the mark that the checkpoint in this folder is complete\n", path.string());
  const uintmax_t size = fs::file_size(path);
  return say_whole(size == 0 ? "" : fmt::format("{} bytes where it is empty", size));
}

// The records of a step or validation log, or nothing where the file holds other things.
template <class Record>
std::optional<int> inspect_log(const fs::path& path, const char* what,
                               std::vector<Record> (*read)(const fs::path&)) {
  std::vector<Record> records;
  uint64_t whole = 0;
  try {
    records = read(path);
    whole = report::whole_size(path);
  } catch (const Error& e) {
    fmt::print("{}: {} of a run\n", path.string(), what);
    return say_whole(e.what());
  }
  const uint64_t size = fs::file_size(path);
  if (records.empty() && size > 0) return std::nullopt;
  fmt::print("{}: {} of a run\nrecords: {}\n", path.string(), what,
             format_count(std::ssize(records)));
  if (!records.empty()) {
    fmt::print("steps: {} to {}\nlast loss: {:.5f}\n", records.front().step, records.back().step,
               records.back().loss);
  }
  return say_whole(whole == size
                       ? ""
                       : fmt::format("the last {} bytes are no whole record; a resumed run cuts "
                                     "them off",
                                     size - whole));
}

int inspect_events(const fs::path& path) {
  const MappedFile file(path);
  const report::EventsCheck found = report::check_events(file.text());
  fmt::print("{}: TensorBoard events of a run\nevents: {}\n", path.string(),
             format_count(found.events));
  return say_whole(found.problem);
}

int inspect_recipe(const fs::path& path) {
  trainer::RunConfig config;
  fmt::print("{}: a recipe\n", path.string());
  try {
    config::load(path, {}, config);
  } catch (const Error& e) {
    const std::string what = e.what();
    return say_whole(what.substr(0, what.find('\n')));
  }
  fmt::print("model: {} {}, {} parameters\nsteps: {}\n", config.model.architecture,
             config.model.flavor, format_count(config.model.resolve().parameter_count()),
             format_count(config.train.steps));
  return say_whole("");
}

}  // namespace

std::optional<int> inspect_run_file(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (name == "state.json" && fs::exists(path.parent_path() / "model.safetensors", error)) {
    return inspect_state(path);
  }
  if (name == "DONE" && fs::exists(path.parent_path() / "state.json", error)) {
    return inspect_done(path);
  }
  if (name == "metrics.jsonl") {
    return inspect_log(path, "the steps", &report::read_metrics);
  }
  if (name == "validation.jsonl") {
    return inspect_log(path, "the validations", &report::read_validations);
  }
  if (name.starts_with("events.out.tfevents")) return inspect_events(path);
  if (path.extension() == ".toml") return inspect_recipe(path);
  return std::nullopt;
}

}  // namespace plimsoll::cli
