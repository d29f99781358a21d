// Runs an Invocation and returns the exit status.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/command_line.hpp"
#include "cli/support/doctor.hpp"

namespace headgate::cli {

// Functions that rooms above this one provide; main() fills them in.
struct Above {
  int (*demo)(const Voice& voice, std::span<const std::string> words);
  int (*bench)(const Voice& voice, const std::optional<std::string>& simulate, std::span<const std::string> words);
  SelfTest self_test;
};

[[nodiscard]] int perform(const Invocation& invocation, const Above& above);

}  // namespace headgate::cli
