#include "plimsoll/device/doctor.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.h"

namespace plimsoll::cli {

void add_doctor(CLI::App& app, Action& action) {
  struct Options {
    std::string device = "auto";
    bool json = false, quick = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("doctor", "Say what this machine and its devices can do");
  c->add_option("--device", o->device, "auto, cpu, or NAME[:INDEX][,option=value...]")
      ->capture_default_str();
  c->add_flag("--json", o->json, "One line of JSON");
  c->add_flag("--quick", o->quick, "Do not time anything");
  c->footer(
      "Examples:\n"
      "  plimsoll doctor\n"
      "  plimsoll doctor --device cpu --json\n"
      "Exit codes: 0 all checks passed, 1 a check failed.");
  c->callback([o, &action] {
    action = [o] {
      device::DoctorReport report = device::run_doctor(o->device, !o->quick);
      fmt::print("{}", o->json ? device::to_json(report) + "\n" : device::to_text(report));
      return report.healthy() ? 0 : 1;
    };
  });
}

}  // namespace plimsoll::cli
