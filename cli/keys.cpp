#include <fmt/format.h>

#include <string>

#include "cli/commands.h"
#include "plimsoll/config/config.h"
#include "plimsoll/trainer/run_config.h"

namespace plimsoll::cli {
namespace {

void add_changeable(const config::Fields& fields, const std::string& prefix, std::string& out) {
  for (const auto& field : fields.fields()) {
    if (field->changeable) out += fmt::format("- `{}{}`\n", prefix, field->name);
  }
  for (const auto& array : fields.arrays()) {
    if (array->changeable) out += fmt::format("- `{}{}`\n", prefix, array->name);
  }
  for (const auto& section : fields.sections()) {
    add_changeable(*section, prefix + section->name() + ".", out);
  }
}

}  // namespace

void add_keys(CLI::App& app, Action& action) {
  CLI::App* c =
      app.add_subcommand("keys", "Print every key of a recipe, its default and what it is");
  c->footer(
      "The output is Markdown: the tables of docs/configuration.md are made of it.\n"
      "Example:\n"
      "  plimsoll keys | grep warmup");
  c->callback([&action] {
    action = [] {
      trainer::RunConfig config;
      const config::Fields root = config::describe(config);
      std::string changeable;
      add_changeable(root, "", changeable);
      fmt::print("{}## Keys that a resumed run may change\n\n{}", config::to_markdown(root),
                 changeable);
      return 0;
    };
  });
}

}  // namespace plimsoll::cli
