#include "plimsoll/checkpoint/steps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/folder.h"

namespace plimsoll::checkpoint {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp-";

}  // namespace

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return std::nullopt;
  if (fmt::format("{}", step) != digits) return std::nullopt;
  return step;
}

fs::path step_path(const fs::path& root, std::int64_t step) {
  return root / fmt::format("{}{}", kStepPrefix, step);
}

fs::path temporary_path(const fs::path& root, std::int64_t step) {
  return fmt::format("{}{}{}", step_path(root, step).string(), kTemporary, ::getpid());
}

FileDescriptor lock_temporary(const fs::path& folder) {
  FileDescriptor lock = try_lock_folder(folder);
  if (!lock) throw Error(folder.string() + ": another process is writing it");
  return lock;
}

Survey survey(const fs::path& root) {
  Survey out;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const auto step = step_of_name(it->path().filename().string());
    if (!step) continue;
    try {
      const std::int64_t held = read_folder(it->path()).step;
      if (held != *step) {
        throw Error(fmt::format("{}: it holds step {}", it->path().string(), held));
      }
      out.complete.push_back(*step);
    } catch (const Error& e) {
      out.unusable.push_back({*step, e.what()});
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(fmt::format("cannot read the folder {}: {}", root.string(), error.message()));
  }
  std::sort(out.complete.begin(), out.complete.end());
  std::sort(out.unusable.begin(), out.unusable.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return out;
}

std::vector<std::int64_t> list_steps(const fs::path& root) {
  return survey(root).complete;
}

std::optional<std::int64_t> latest(const fs::path& root) {
  const auto steps = list_steps(root);
  if (steps.empty()) return std::nullopt;
  return steps.back();
}

Pruned prune(const fs::path& root, std::int64_t keep_latest_k) {
  if (keep_latest_k < 0) {
    throw UsageError(
        fmt::format("keep_latest_k = {}: must be at least 0 (0 keeps all)", keep_latest_k));
  }
  Pruned out;
  if (keep_latest_k == 0) return out;
  const auto steps = list_steps(root);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_latest_k) < steps.size(); ++i) {
    const fs::path path = step_path(root, steps[i]);
    // Out of the list first: a folder half deleted must not look like a damaged checkpoint.
    const fs::path aside = temporary_path(root, steps[i]);
    std::error_code error;
    fs::rename(path, aside, error);
    if (!error) {
      out.removed.push_back(steps[i]);
      fs::remove_all(aside, error);
    }
    if (error) {
      out.failures.push_back(fmt::format("cannot remove {}: {}", path.string(), error.message()));
    }
  }
  return out;
}

std::vector<std::string> remove_stale(const fs::path& root) {
  std::vector<std::string> removed;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto at = name.find(kTemporary);
    if (at == name.npos || !step_of_name(std::string_view(name).substr(0, at))) continue;
    try {
      const FileDescriptor lock = lock_temporary(it->path());
      std::error_code failed;
      fs::remove_all(it->path(), failed);
      if (!failed) removed.push_back(name);
    } catch (const Error&) {
      // In use, or not ours to delete.
    }
  }
  std::sort(removed.begin(), removed.end());
  return removed;
}

}  // namespace plimsoll::checkpoint
