// Performs every command: an Invocation in, the exit status out.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/command_line.hpp"
#include "cli/support/doctor.hpp"

namespace headgate::cli {

// What rooms above this one do for the command; main() fills it in.
struct Above {
  int (*demo)(const Voice& voice, std::span<const std::string> words);
  int (*bench)(const Voice& voice, const std::optional<std::string>& simulate, std::span<const std::string> words);
  SelfTest self_test;
};

[[nodiscard]] int perform(const Invocation& invocation, const Above& above);

}  // namespace headgate::cli
