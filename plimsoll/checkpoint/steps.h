#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/files.h"

namespace plimsoll::checkpoint {

/// The checkpoints of one run: folders `<root>/step-N` (checkpoint/folder.h), and while one is
/// written or removed `<root>/step-N.tmp-<pid>`. Nothing here needs torch.

/// "step-12" -> 12; nothing for any other name ("step-012", "step-12.tmp-7").
std::optional<std::int64_t> step_of_name(std::string_view name);
/// `<root>/step-<step>`.
std::filesystem::path step_path(const std::filesystem::path& root, std::int64_t step);
/// What is named step-N below a root: the complete ones (read_folder accepts them), and the others
/// with the reason. Both rising; empty when there is no such root. Throws Error when the root
/// cannot be read.
struct Survey {
  struct Unusable {
    std::int64_t step = 0;
    std::string why;
  };
  std::vector<std::int64_t> complete;
  std::vector<Unusable> unusable;
};
Survey survey(const std::filesystem::path& root);
/// The complete ones of survey().
std::vector<std::int64_t> list_steps(const std::filesystem::path& root);
/// The highest complete step.
std::optional<std::int64_t> latest(const std::filesystem::path& root);

/// What a clean-up did; it never throws for a folder that cannot be deleted.
struct Pruned {
  std::vector<std::int64_t> removed;
  std::vector<std::string> failures;  // one line each
};
/// Deletes complete checkpoints but the `keep_latest_k` newest; 0 keeps all. The newest complete
/// one always stays, and damaged folders are not touched. Throws UsageError for a negative number.
Pruned prune(const std::filesystem::path& root, std::int64_t keep_latest_k);
/// Deletes `step-N.tmp-*` folders that no living process is writing (writers hold a lock on them).
/// Returns the names removed.
std::vector<std::string> remove_stale(const std::filesystem::path& root);

/// Where this process writes or removes the checkpoint of a step.
std::filesystem::path temporary_path(const std::filesystem::path& root, std::int64_t step);
/// A writer holds this lock on its temporary folder; the kernel drops it when the writer dies, so
/// that a clean-up tells a stale folder from one in use, whatever has become of process ids. Throws
/// Error when another process holds it.
FileDescriptor lock_temporary(const std::filesystem::path& folder);

}  // namespace plimsoll::checkpoint
