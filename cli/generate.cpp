#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "plimsoll/generate/generator.h"
#include "plimsoll/text/stream_decoder.h"
#include "plimsoll/trainer/saved_run.h"

namespace plimsoll::cli {
namespace {

// Of the integer kind, so that what CLI11 says of a value outside stays readable.
const CLI::Range kNotNegative(int64_t{0}, std::numeric_limits<int64_t>::max(), ">=0");

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  struct Options {
    std::string run, prompt;
    std::optional<int64_t> step;
    int64_t max_tokens = 200;
    generate::SamplingConfig sampling{.temperature = 0.8, .top_p = 0.95};
  };
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("generate", "Continue a text with a trained model");
  c->add_option("run", o->run, "Run folder")->required();
  c->add_option("--prompt", o->prompt, "Text to continue");
  c->add_option("--step", o->step, "Checkpoint to use (default: the newest)")->check(kNotNegative);
  c->add_option("--max-tokens", o->max_tokens, "Tokens to generate at most")
      ->check(kNotNegative)
      ->capture_default_str();
  c->add_option("--temperature", o->sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  c->add_option("--top-k", o->sampling.top_k, "Only the K likeliest tokens; 0: all")
      ->capture_default_str();
  c->add_option("--top-p", o->sampling.top_p, "Only the likeliest tokens of this total probability")
      ->capture_default_str();
  c->add_option("--seed", o->sampling.seed, "Seed of the draws")->capture_default_str();
  c->footer(
      "Examples:\n"
      "  plimsoll generate runs/llama3_debug-1 --prompt \"In the beginning\"\n"
      "  plimsoll generate runs/llama3_debug-1 --prompt \"And\" --temperature 0 --max-tokens 50");
  c->callback([o, &action] {
    action = [o] {
      generate::check(o->sampling);
      trainer::SavedRun run = trainer::open_saved_run(o->run, o->step);
      generate::Request request;
      if (auto bos = run.tokenizer.bos()) request.prompt.push_back(*bos);
      run.tokenizer.encode(o->prompt, request.prompt);
      request.max_tokens = o->max_tokens;
      request.stop = run.tokenizer.eos();
      request.sampling = o->sampling;
      text::StreamDecoder decoder(run.tokenizer);
      auto print = [](const std::string& text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      };
      generate::check(request, run.decoder);  // before a first word is printed
      print(o->prompt);
      generate::generate(run.decoder, request, [&](int32_t id) {
        print(decoder.feed(id));
        return true;
      });
      print(decoder.finish() + "\n");
      return 0;
    };
  });
}

}  // namespace plimsoll::cli
