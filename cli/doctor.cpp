#include "cli/commands.h"

namespace plimsoll::cli {

void add_doctor(CLI::App& app, Action& action) { app.add_subcommand("doctor", "Say what this machine can do")->callback([&action]{ action = []{ return 0; }; }); }

}  // namespace plimsoll::cli
