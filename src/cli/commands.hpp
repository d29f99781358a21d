// The table of commands. Each function returns the commands of one file.
#pragma once

#include "cli/command.hpp"
#include "cli/support/doctor.hpp"

namespace headgate::cli {

[[nodiscard]] Commands api_commands();
[[nodiscard]] Commands cdi_commands();
[[nodiscard]] Commands completion_commands();
[[nodiscard]] Commands config_commands();
[[nodiscard]] Commands doctor_commands(const SelfTest& self_test);
[[nodiscard]] Commands engine_commands();
[[nodiscard]] Commands events_commands();
[[nodiscard]] Commands free_commands();
[[nodiscard]] Commands gpu_commands();
[[nodiscard]] Commands limiter_commands();
[[nodiscard]] Commands power_commands();
[[nodiscard]] Commands ps_commands();
[[nodiscard]] Commands quota_commands();
[[nodiscard]] Commands run_commands();
[[nodiscard]] Commands runtime_commands();
[[nodiscard]] Commands share_commands();
[[nodiscard]] Commands sim_commands();
[[nodiscard]] Commands status_commands();
[[nodiscard]] Commands support_bundle_commands(const SelfTest& self_test);
[[nodiscard]] Commands top_commands();
[[nodiscard]] Commands version_commands();
[[nodiscard]] Commands why_commands();
[[nodiscard]] Commands zeusd_commands();

// What rooms above this one provide; main() fills it in.
struct Above {
  Commands proofs;  // demo and bench
  SelfTest self_test;
};

[[nodiscard]] Commands all_commands(const Above& above);

// Parses argv, runs the command and returns the exit status.
[[nodiscard]] int perform(int argc, const char* const* argv, const Above& above);

}  // namespace headgate::cli
