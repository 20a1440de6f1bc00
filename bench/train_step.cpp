// The C++ side of train_vs_peers.py; one measurement per process.
//   train_step PRECISION ROWS LENGTH WARMUP STEPS THREADS
// trains the debug model on one row of ROWS * LENGTH random tokens whose positions restart every
// LENGTH and prints one JSON line: seconds of each step after the warm-up, peak resident bytes.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/data/batch_stream.h"
#include "plimsoll/device/host_allocator.h"
#include "plimsoll/device/host_memory.h"
#include "plimsoll/model/decoder.h"
#include "plimsoll/optim/adamw.h"
#include "plimsoll/trainer/step.h"

namespace {

using namespace plimsoll;

int64_t positive(const char* text, int64_t least) {
  char* end = nullptr;
  const int64_t n = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || n < least || n > (1 << 24)) {
    throw UsageError(fmt::format("'{}' must be a whole number of {} or more", text, least));
  }
  return n;
}

// The peer's loss leaves out the last token of each document; so does ours.
data::Batch random_batch(int64_t rows, int64_t length, int64_t vocabulary) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(vocabulary - 1));
  data::Batch batch;
  batch.documents.push_back(0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t t = 0; t < length; ++t) {
      batch.tokens.push_back(token(random));
      batch.positions.push_back(static_cast<int32_t>(t));
      if (t > 0) batch.targets.push_back(batch.tokens.back());
    }
    batch.targets.push_back(data::kNoLoss);
    batch.documents.push_back(static_cast<int32_t>((r + 1) * length));
  }
  return batch;
}

void measure(char** argv) {
  const std::string precision = argv[1];
  if (precision != "bf16" && precision != "fp32") {
    throw UsageError("the precision is '" + precision + "': must be bf16 or fp32");
  }
  const int64_t rows = positive(argv[2], 1), length = positive(argv[3], 2);
  const int64_t warmup = positive(argv[4], 0), steps = positive(argv[5], 1);
  at::set_num_threads(static_cast<int>(positive(argv[6], 1)));
  device::install_host_allocator();

  model::Decoder decoder = model::build(
      model::preset("llama3", "debugmodel"),
      {.compute = precision == "bf16" ? at::kBFloat16 : at::kFloat, .max_context = length});
  optim::AdamW optimizer(model::parameters(decoder), optim::OptimConfig());
  const std::vector<trainer::DeviceBatch> batches{
      trainer::to_device(random_batch(rows, length, decoder.config.vocab), c10::kCPU)};

  std::vector<double> seconds;
  double loss = 0;
  for (int64_t i = 0; i < warmup + steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    loss = trainer::train_step(decoder, optimizer, batches, 1.0, 2048).loss.item<double>();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i >= warmup) seconds.push_back(took.count());
  }
  const nlohmann::json result{{"seconds", seconds},
                              {"loss", loss},
                              {"parameters", decoder.config.parameter_count()},
                              {"peak_bytes", device::host_memory().peak_resident.value_or(0)}};
  fmt::print("{}\n", result.dump());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 7) {
      fmt::print(stderr, "usage: train_step bf16|fp32 ROWS LENGTH WARMUP STEPS THREADS\n");
      return 2;
    }
    measure(argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
