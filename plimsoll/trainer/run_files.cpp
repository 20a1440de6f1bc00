#include "plimsoll/trainer/run_files.h"

#include <string>
#include <utility>

#include "plimsoll/base/files.h"
#include "plimsoll/config/config.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

void copy_tokenizer(const fs::path& from, const fs::path& folder) {
  const fs::path source = fs::is_directory(from) ? from : from.parent_path();
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::path file =
        !fs::is_directory(from) && std::string(name) == "tokenizer.json" ? from : source / name;
    if (fs::exists(file)) write_file_atomic(folder / name, read_file(file));
  }
}

void write_files(RunConfig config, const fs::path& folder) {
  copy_tokenizer(config.data.tokenizer, folder);
  config.model = config.model.filled();
  write_file_atomic(folder / "config.toml", config::to_toml(config));
}

}  // namespace

void settle(RunConfig& config, const fs::path& folder) {
  const auto absolute = [](std::string& path) {
    if (!path.empty()) path = fs::absolute(path).lexically_normal().string();
  };
  for (std::string& file : config.data.files) absolute(file);
  for (std::string& file : config.data.validation_files) absolute(file);
  absolute(config.data.tokenizer);
  absolute(config.data.cache_dir);
  config.run.dir = folder.string();
  absolute(config.run.dir);
}

RunFiles::RunFiles(RunConfig config, fs::path folder)
    : writing_(
          std::async(std::launch::async, [config = std::move(config), folder = std::move(folder)] {
            write_files(config, folder);
          })) {}

void RunFiles::require_written() {
  if (writing_.valid()) writing_.get();
}

}  // namespace plimsoll::trainer
