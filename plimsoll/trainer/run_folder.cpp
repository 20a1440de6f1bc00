#include "plimsoll/trainer/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/checkpoint/folder.h"
#include "plimsoll/checkpoint/steps.h"

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

void require_step(const fs::path& checkpoints, int64_t step) {
  const checkpoint::Survey found = checkpoint::survey(checkpoints);
  const std::vector<int64_t>& steps = found.complete;
  if (std::find(steps.begin(), steps.end(), step) != steps.end()) return;
  const std::string hint = steps.empty() ? "there is no complete one"
                                         : fmt::format("complete ones: {}", fmt::join(steps, ", "));
  for (const auto& [damaged, why] : found.unusable) {
    if (damaged == step) throw UsageError(why, hint);
  }
  throw UsageError(
      fmt::format("{} has no complete checkpoint of step {}", checkpoints.string(), step), hint);
}

// Waiting is no use: the other process may run for days.
FileDescriptor lock_run(const fs::path& folder) {
  FileDescriptor lock = try_lock_folder(folder);
  if (!lock) {
    throw Error(fmt::format("{} is in use: another process trains there", folder.string()),
                "wait for its end, or choose another run.dir");
  }
  return lock;
}

}  // namespace

Resume parse_resume(const std::string& text) {
  if (text.empty() || text == "none") return {};
  if (text == "auto") return {Resume::Kind::kAuto, 0};
  if (auto step = parse_number(text)) return {Resume::Kind::kStep, *step};
  throw UsageError(fmt::format("--resume {}: not auto, none or a step number", text));
}

std::vector<int64_t> set_aside_later(const fs::path& checkpoints, int64_t step) {
  const checkpoint::Survey found = checkpoint::survey(checkpoints);
  std::vector<int64_t> later = found.complete;
  for (const auto& damaged : found.unusable) later.push_back(damaged.step);
  std::erase_if(later, [&](int64_t s) { return s <= step; });
  std::sort(later.begin(), later.end());
  // The last one first: where this is cut short, those that are left are still one past.
  std::reverse(later.begin(), later.end());
  for (int64_t s : later) {
    fs::path aside = checkpoints / fmt::format("abandoned-step-{}", s);
    for (int64_t n = 2; fs::exists(aside); ++n) {
      aside = checkpoints / fmt::format("abandoned-step-{}-{}", s, n);
    }
    std::error_code error;
    const fs::path from = checkpoint::step_path(checkpoints, s);
    fs::rename(from, aside, error);
    if (error) {
      throw Error(
          fmt::format("cannot rename {} to {}: {}", from.string(), aside.string(), error.message()),
          "move away the checkpoints after the step to go on from");
    }
  }
  return later;
}

ResumePoint choose_checkpoint(const fs::path& checkpoints, const Resume& resume) {
  if (resume.kind == Resume::Kind::kNone) return {};
  if (resume.kind == Resume::Kind::kStep) {
    require_step(checkpoints, resume.step);
    return {.step = resume.step};
  }
  const checkpoint::Survey found = checkpoint::survey(checkpoints);
  if (found.complete.empty()) {
    if (found.unusable.empty()) return {};
    throw Error(found.unusable.back().why,
                fmt::format("no other checkpoint is complete; move {} away to start anew",
                            checkpoints.string()));
  }
  ResumePoint point{.step = found.complete.back()};
  for (const auto& [step, why] : found.unusable) {
    if (step > *point.step)
      point.notes.push_back(fmt::format("step {} is passed over: {}", step, why));
  }
  return point;
}

bool holds_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.toml", error) || fs::exists(folder / "metrics.jsonl", error) ||
         fs::exists(folder / "checkpoints", error);
}

void require_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    const std::string why = error ? error.message() : "it is a file";
    throw UsageError(fmt::format("{} is not a folder that can be read: {}", folder.string(), why),
                     "name the run folder that `plimsoll train` printed");
  }
  if (!fs::exists(folder / "config.toml", error)) {
    throw UsageError(fmt::format("{} holds no run (no config.toml)", folder.string()),
                     "name the run folder that `plimsoll train` printed");
  }
}

void check_run_folder(const std::string& dir, const Resume& resume) {
  if (dir.empty()) {
    if (resume.kind == Resume::Kind::kStep) {
      throw UsageError("--resume STEP needs to know the run", "add --set run.dir=runs/NAME-N");
    }
    return;
  }
  std::error_code error;
  if (fs::exists(dir, error) && !fs::is_directory(dir, error)) {
    throw UsageError(fmt::format("run.dir = \"{}\" is a file", dir), "name a folder");
  }
  if (resume.kind == Resume::Kind::kNone && holds_run(dir)) {
    throw UsageError(fmt::format("{} already holds a run", dir),
                     "continue it with --resume auto, or choose another run.dir");
  }
  if (resume.kind == Resume::Kind::kStep) {
    require_step(RunFolder{.path = dir}.checkpoints(), resume.step);
  }
}

RunFolder open_run_folder(const std::string& dir, const std::string& name, const Resume& resume) {
  check_run_folder(dir, resume);
  const fs::path parent = "runs";
  // Locked first, so that the step is chosen when nobody else can add one.
  auto lock_and_choose = [&](const fs::path& path) {
    RunFolder folder{.path = path, .lock = lock_run(path)};
    ResumePoint point = choose_checkpoint(folder.checkpoints(), resume);
    folder.resume_step = point.step;
    folder.notes = std::move(point.notes);
    if (resume.kind == Resume::Kind::kAuto && !point.step) {
      folder.notes.push_back(
          fmt::format("nothing to resume in {}: a new run starts", path.string()));
    }
    return folder;
  };
  if (dir.empty()) {
    if (resume.kind == Resume::Kind::kAuto) {
      for (int64_t n : numbered(parent, name)) {
        const fs::path path = parent / fmt::format("{}-{}", name, n);
        const auto [complete, unusable] = checkpoint::survey(RunFolder{.path = path}.checkpoints());
        if (!complete.empty() || !unusable.empty()) return lock_and_choose(path);
      }
    }
    return lock_and_choose(fresh_folder(parent, name));
  }
  make_folders(dir);
  RunFolder folder = lock_and_choose(dir);
  check_run_folder(dir, resume);  // again: another process may have come and gone
  return folder;
}

}  // namespace plimsoll::trainer
