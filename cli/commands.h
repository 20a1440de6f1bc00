#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace plimsoll::cli {

/// What a subcommand does once its options are read; the value is the exit code.
using Action = std::function<int()>;

/// Each adds its subcommand and sets `action` when that subcommand is chosen.
void add_train(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_tokenizer(CLI::App& app, Action& action);
void add_keys(CLI::App& app, Action& action);

}  // namespace plimsoll::cli
