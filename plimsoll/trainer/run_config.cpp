#include "plimsoll/trainer/run_config.h"

#include "plimsoll/base/files.h"
#include "plimsoll/config/config.h"
#include "plimsoll/config/problems.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kMaxTokens = 1 << 30;  // a row's positions and offsets are int32

}  // namespace

void RunSection::describe(config::Fields& f) {
  f.field("name", name, "name of the run (default: the recipe's)").may_change();
  f.field("dir", dir, "run folder (default: a fresh runs/NAME-N)").may_change();
  f.field("seed", seed, "seed of initialisation, data order and sampling").at_least(0);
}

void RunSection::validate(config::Problems& p) const {
  p.check(name.find('/') == std::string::npos && name != "." && name != "..", "name",
          "names a folder below runs/; set run.dir to choose the whole path");
}

void TrainSection::describe(config::Fields& f) {
  f.field("steps", steps, "optimizer steps of the whole run; the schedule's length")
      .at_least(1)
      .may_change();
  f.field("stop_after", stop_after, "stop after this step, schedule unchanged")
      .at_least(1)
      .may_change();
  f.field("tokens_per_batch", tokens_per_batch, "tokens of one packed row, the micro-batch")
      .at_least(2)
      .at_most(kMaxTokens);
  f.field("tokens_per_step", tokens_per_step,
          "tokens of one optimizer step, a multiple of tokens_per_batch (default: one batch)")
      .at_least(2);
  f.field("max_context", max_context, "longest stretch of a document that attends to itself")
      .at_least(2)
      .at_most(kMaxTokens);
  f.choice("precision", precision, {"auto", "bf16", "fp32"},
           "arithmetic; auto takes bf16 where the processor has it");
  f.choice("gradients", gradients, {"fp32", "bf16"}, "dtype in which gradients are kept");
  f.field("loss_chunk", loss_chunk, "rows of logits that exist at a time").at_least(1);
  f.field("validation_interval", validation_interval,
          "steps between validations; 0: only after the last step")
      .at_least(0)
      .may_change();
  f.field("validation_tokens", validation_tokens, "tokens of one validation, at most")
      .at_least(1)
      .may_change();
  f.field("sample_tokens", sample_tokens, "tokens generated after the last step; 0: none")
      .at_least(0)
      .may_change();
  f.field("sample_prompt", sample_prompt, "text that the sample continues").may_change();
  f.field("deterministic", deterministic, "bit-equal runs on one machine and thread count")
      .may_change();
}

void TrainSection::validate(config::Problems& p) const {
  p.check(!tokens_per_step || tokens_per_batch < 1 || *tokens_per_step % tokens_per_batch == 0,
          "tokens_per_step", "is not a multiple of train.tokens_per_batch = {}", tokens_per_batch);
}

void MemorySection::describe(config::Fields& f) {
  f.bytes("host_limit", host_limit,
          "bytes that CPU tensors may hold, e.g. \"8 GiB\" (default: the machine's)")
      .may_change();
}

void CheckpointSection::describe(config::Fields& f) {
  f.field("interval", interval, "steps between checkpoints; 0: only after the last step")
      .at_least(0);
  f.field("last", last, "save after the last step, and when interrupted");
  f.field("keep", keep, "newest checkpoints that are kept; 0: all").at_least(0);
  f.field("async", async, "write in the background from a snapshot");
  f.choice("on_error", on_error, {"stop", "continue"},
           "what the run does when a checkpoint cannot be written");
  f.may_change();
}

void DeviceSection::describe(config::Fields& f) {
  f.field("name", name, "auto, cpu, or NAME[:INDEX][,option=value...]");
  f.field("plugins", plugins, "shared libraries that bring a torch backend");
  f.field("threads", threads, "CPU threads (default: one a core)").at_least(1).at_most(1024);
  f.may_change();
}

void MetricsSection::describe(config::Fields& f) {
  f.field("interval", interval, "steps between step lines").at_least(1);
  f.field("tensorboard", tensorboard, "write TensorBoard event files");
  f.may_change();
}

void RunConfig::describe(config::Fields& f) {
  f.section("run", run, "the run as a whole");
  f.section("model", model, "the model");
  f.section("data", data, "text and how it is packed");
  f.section("train", train, "steps, sizes, precision");
  f.section("optim", optim, "AdamW");
  f.section("memory", memory, "limits");
  f.section("checkpoint", checkpoint, "saving");
  f.section("device", device, "where it runs");
  f.section("metrics", metrics, "what is reported");
}

RunConfig read_recipe(const std::filesystem::path& recipe, const std::vector<std::string>& sets) {
  RunConfig config;
  config::load(recipe, sets, config);
  if (config.run.name.empty()) config.run.name = recipe.stem().string();
  // The run folder's config.toml then says where things really were.
  for (std::string& file : config.data.files) file = expand_path(file);
  for (std::string& file : config.data.validation_files) file = expand_path(file);
  config.data.tokenizer = expand_path(config.data.tokenizer);
  config.data.cache_dir = expand_path(config.data.cache_dir);
  return config;
}

}  // namespace plimsoll::trainer
