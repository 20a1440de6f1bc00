#include "plimsoll/trainer/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/checkpoint/folder.h"

namespace plimsoll::trainer {
namespace fs = std::filesystem;
namespace {

std::optional<int64_t> parse_number(const std::string& text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Numbers N of the folders NAME-N below `parent`, falling.
std::vector<int64_t> numbered(const fs::path& parent, const std::string& name) {
  std::vector<int64_t> numbers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    std::string file = entry.path().filename().string();
    if (!file.starts_with(name + "-")) continue;
    if (auto n = parse_number(file.substr(name.size() + 1))) numbers.push_back(*n);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

fs::path fresh_folder(const fs::path& parent, const std::string& name) {
  make_folders(parent);
  std::vector<int64_t> taken = numbered(parent, name);
  for (int64_t n = taken.empty() ? 1 : taken.front() + 1;; ++n) {
    fs::path candidate = parent / fmt::format("{}-{}", name, n);
    std::error_code error;
    // create_directory is false when another process was faster.
    if (fs::create_directory(candidate, error)) return candidate;
    if (error) {
      throw Error(fmt::format("cannot create {}: {}", candidate.string(), error.message()));
    }
  }
}

int64_t require_step(const fs::path& checkpoints, int64_t step) {
  std::vector<int64_t> steps = checkpoint::list_steps(checkpoints);
  if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
    throw UsageError(
        fmt::format("{} has no complete checkpoint of step {}", checkpoints.string(), step),
        steps.empty() ? "it has none at all"
                      : fmt::format("complete ones: {}", fmt::join(steps, ", ")));
  }
  return step;
}

}  // namespace

Resume parse_resume(const std::string& text) {
  if (text.empty() || text == "none") return {};
  if (text == "auto") return {Resume::Kind::kAuto, 0};
  if (auto step = parse_number(text)) return {Resume::Kind::kStep, *step};
  throw UsageError(fmt::format("--resume {}: not auto, none or a step number", text));
}

bool holds_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.toml", error) || fs::exists(folder / "metrics.jsonl", error) ||
         fs::exists(folder / "checkpoints", error);
}

void require_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw UsageError(fmt::format("{} is not a folder", folder.string()),
                     "name the run folder that `plimsoll train` printed");
  }
  if (!fs::exists(folder / "config.toml", error)) {
    throw UsageError(fmt::format("{} holds no run (no config.toml)", folder.string()),
                     "name the run folder that `plimsoll train` printed");
  }
}

RunFolder open_run_folder(const std::string& dir, const std::string& name, const Resume& resume) {
  const fs::path parent = "runs";
  if (dir.empty()) {
    if (resume.kind == Resume::Kind::kStep) {
      throw UsageError("--resume STEP needs to know the run", "add --set run.dir=runs/NAME-N");
    }
    if (resume.kind == Resume::Kind::kAuto) {
      for (int64_t n : numbered(parent, name)) {
        RunFolder folder{parent / fmt::format("{}-{}", name, n), {}};
        folder.resume_step = checkpoint::latest(folder.checkpoints());
        if (folder.resume_step) return folder;
      }
    }
    return {fresh_folder(parent, name), {}};
  }
  RunFolder folder{dir, {}};
  std::error_code error;
  if (fs::exists(folder.path, error) && !fs::is_directory(folder.path, error)) {
    throw UsageError(fmt::format("run.dir = \"{}\" is a file", dir), "name a folder");
  }
  if (resume.kind == Resume::Kind::kNone && holds_run(folder.path)) {
    throw UsageError(fmt::format("{} already holds a run", dir),
                     "continue it with --resume auto, or choose another run.dir");
  }
  if (resume.kind == Resume::Kind::kStep) {
    folder.resume_step = require_step(folder.checkpoints(), resume.step);
  }
  if (resume.kind == Resume::Kind::kAuto) {
    folder.resume_step = checkpoint::latest(folder.checkpoints());
  }
  make_folders(folder.path);
  return folder;
}

}  // namespace plimsoll::trainer
