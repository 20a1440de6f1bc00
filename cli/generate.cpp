#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/stdin.h"
#include "cli/whole_number.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "plimsoll/checkpoint/steps.h"
#include "plimsoll/generate/generator.h"
#include "plimsoll/text/stream_decoder.h"
#include "plimsoll/trainer/saved_run.h"

namespace plimsoll::cli {
namespace {

const CLI::Validator kNotNegative = whole_number(0, INT64_MAX);
const CLI::Validator kThreads = whole_number(1, 4096);

struct Options {
  std::string run, prompt;
  std::optional<int64_t> step, threads;
  int64_t max_tokens = 200;
  generate::SamplingConfig sampling{.temperature = 0.8, .top_p = 0.95};
};

// RUN/checkpoints/step-N stands for that run and that step.
void resolve_checkpoint(Options& o) {
  namespace fs = std::filesystem;
  fs::path path = fs::absolute(o.run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  const fs::path run = path.parent_path().parent_path();
  const std::optional<int64_t> step = checkpoint::step_of_name(name);
  if (!step || !fs::exists(run / "config.toml")) return;
  if (o.step && *o.step != *step) {
    throw UsageError(
        fmt::format("{} is the checkpoint of step {}, --step says {}", o.run, *step, *o.step),
        "leave --step out, or name the run folder");
  }
  o.run = run.string();
  o.step = step;
}

// One line break at the end belongs to the way the text was piped.
std::string prompt_from_stdin() {
  std::string text = read_stdin();
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int continue_text(Options o) {
  generate::check(o.sampling);
  resolve_checkpoint(o);
  if (o.threads) at::set_num_threads(static_cast<int>(*o.threads));
  trainer::SavedRun run = trainer::open_saved_run(o.run, o.step);
  for (const std::string& note : run.notes) fmt::print(stderr, "note: {}\n", note);
  if (o.prompt == "-") o.prompt = prompt_from_stdin();
  generate::Request request;
  if (auto bos = run.tokenizer.bos()) request.prompt.push_back(*bos);
  run.tokenizer.encode(o.prompt, request.prompt);
  request.max_tokens = o.max_tokens;
  request.stop = run.tokenizer.eos();
  request.sampling = o.sampling;
  text::StreamDecoder decoder(run.tokenizer);
  generate::check(request, run.decoder);  // before a first word is printed
  print(o.prompt);
  const generate::Generated got = generate::generate(run.decoder, request, [&](int32_t id) {
    print(decoder.feed(id));
    return true;
  });
  print(decoder.finish() + "\n");
  if (got.end == generate::End::kContext) {
    fmt::print(stderr,
               "note: ended after {} tokens: the context of {} positions is full "
               "(train.max_context of the run)\n",
               format_count(got.tokens), format_count(generate::context_of(run.decoder)));
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("generate", "Continue a text with a trained model");
  c->add_option("run", o->run, "Run folder, or its checkpoints/step-N")->required();
  c->add_option("--prompt", o->prompt, "Text to continue; -: the standard input");
  c->add_option("--step", o->step, "Checkpoint to use (default: the newest)")->check(kNotNegative);
  c->add_option("--max-tokens", o->max_tokens, "Tokens to generate at most")
      ->check(kNotNegative)
      ->capture_default_str();
  c->add_option("--temperature", o->sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  c->add_option("--top-k", o->sampling.top_k, "Only the K likeliest tokens; 0: all")
      ->check(kNotNegative)
      ->capture_default_str();
  c->add_option("--top-p", o->sampling.top_p, "Only the likeliest tokens of this total probability")
      ->capture_default_str();
  c->add_option("--seed", o->sampling.seed, "Seed of the draws")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str();
  c->add_option("--threads", o->threads, "CPU threads (default: one a core)")->check(kThreads);
  c->footer(
      "Examples:\n"
      "  plimsoll generate runs/llama3_debug-1 --prompt \"In the beginning\"\n"
      "  plimsoll generate runs/llama3_debug-1 --prompt \"And\" --temperature 0 --max-tokens 50\n"
      "  plimsoll generate runs/llama3_debug-1/checkpoints/step-160 --prompt - < prompt.txt");
  c->callback([o, &action] { action = [o] { return continue_text(*o); }; });
}

}  // namespace plimsoll::cli
