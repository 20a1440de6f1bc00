#include "plimsoll/device/peak_flops.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <toml++/toml.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/device/device_name.h"
#include "plimsoll/device/peak_table.h"

namespace plimsoll::device {
namespace {

namespace fs = std::filesystem;

fs::path cache_file() {
  return cache_folder() / "peak_flops.json";
}

nlohmann::json read_cache(const fs::path& path) {
  std::ifstream in(path);
  auto value = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? value : nlohmann::json::object();
}

/// Best effort: a cache that cannot be written costs 0.4 s next time.
void write_cache(const fs::path& path, const std::string& key, double flops) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  auto all = read_cache(path);
  all[key] = flops;
  const fs::path aside = path.string() + fmt::format(".{}", getpid());
  {
    std::ofstream out(aside);
    out << all.dump(1) << '\n';
    if (!out.good()) return;
  }
  fs::rename(aside, path, ignored);
}

double measure(c10::ScalarType dtype, double budget) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSize = 1024;  // short rounds: some fall between what others do
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  const c10::InferenceMode guard;
  const auto options = at::TensorOptions().dtype(dtype).device(c10::kCPU);
  const at::Tensor a = at::ones({kSize, kSize}, options);
  const at::Tensor b = at::ones({kSize, kSize}, options);
  at::Tensor out = at::empty({kSize, kSize}, options);
  at::mm_out(out, a, b);  // pages and packing buffers are touched first
  double best = 0;
  const auto begin = Clock::now();
  // The best of many: others use the machine as well, and a peak is what it can do.
  for (int round = 0;
       round < 3 || std::chrono::duration<double>(Clock::now() - begin).count() < budget; ++round) {
    const auto start = Clock::now();
    at::mm_out(out, a, b);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, kFlops / seconds);
    if (std::chrono::duration<double>(Clock::now() - begin).count() > 4 * budget) break;
  }
  return best;
}

}  // namespace

std::vector<PeakRow> parse_peak_table(const std::string& text, const std::string& file) {
  const auto bad = [&](const toml::source_region& at, const std::string& what) {
    return Error(fmt::format("{}:{}: {}", file, at.begin.line, what));
  };
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    throw bad(e.source(), std::string(e.description()));
  }
  const auto* const rows = root["device"].as_array();
  if (rows == nullptr) throw Error(fmt::format("{}: no [[device]] in it", file));
  std::vector<PeakRow> table;
  for (const auto& node : *rows) {
    const auto* const row = node.as_table();
    if (row == nullptr) throw bad(node.source(), "a device is a table");
    PeakRow parsed;
    parsed.name = (*row)["name"].value_or(std::string());
    parsed.flops = (*row)["flops"].value_or(0.0);
    parsed.source = (*row)["source"].value_or(std::string());
    if (parsed.name.empty()) throw bad(row->source(), "a device without a name");
    if (!(parsed.flops > 0)) throw bad(row->source(), parsed.name + ": flops must be above zero");
    if (parsed.source.empty()) throw bad(row->source(), parsed.name + ": the figure has no source");
    table.push_back(std::move(parsed));
  }
  return table;
}

const std::vector<PeakRow>& peak_table() {
  static const std::vector<PeakRow> table =
      parse_peak_table(kPeakTable, "profiles/peak_flops.toml");
  return table;
}

std::optional<double> listed_peak_flops(const std::string& device_name,
                                        const std::vector<PeakRow>& table) {
  for (const auto& row : table)
    if (device_name.find(row.name) != std::string::npos) return row.flops;
  return std::nullopt;
}

namespace {

// What is kept, measured for at least `again` seconds, for longer where nothing is kept.
double cpu_peak_flops(c10::ScalarType dtype, double again) {
  if (dtype != c10::kFloat && dtype != c10::kBFloat16)
    throw Error(fmt::format("no peak is measured for {}", c10::toString(dtype)));
  static std::mutex mutex;  // two measurements at once would each see half the machine
  const std::lock_guard lock(mutex);
  const std::string key =
      fmt::format("{} | {} threads | {} | torch {}", cpu_model().value_or("cpu"),
                  at::get_num_threads(), c10::toString(dtype), TORCH_VERSION);
  const fs::path path = cache_file();
  double known = 0;
  const auto all = read_cache(path);
  if (const auto found = all.find(key); found != all.end() && found->is_number())
    known = std::max(known, found->get<double>());
  if (known > 0 && again == 0) return known;
  const double flops = std::max(known, measure(dtype, known > 0 ? again : 0.3));
  if (flops > known) write_cache(path, key, flops);
  return flops;
}

}  // namespace

double measured_cpu_peak_flops(c10::ScalarType dtype) {
  return cpu_peak_flops(dtype, 0);
}

double remeasured_cpu_peak_flops(c10::ScalarType dtype) {
  return cpu_peak_flops(dtype, 0.02);
}

std::optional<Peak> peak_flops(c10::Device device, c10::ScalarType dtype) {
  if (device.is_cpu()) {
    if (dtype != c10::kFloat && dtype != c10::kBFloat16) return std::nullopt;
    return Peak{measured_cpu_peak_flops(dtype), "measured"};
  }
  // The table is of bf16 only: another type's peak would be a guess.
  const auto name = device_name(device);
  if (!name || dtype != c10::kBFloat16) return std::nullopt;
  for (const auto& row : peak_table())
    if (name->find(row.name) != std::string::npos) return Peak{row.flops, row.source};
  return std::nullopt;
}

}  // namespace plimsoll::device
