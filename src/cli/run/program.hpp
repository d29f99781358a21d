// Checks whether the limiter can be loaded into a program.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace headgate::cli {

struct Program {
  std::string path;                   // the file to execute
  std::optional<std::string> unheld;  // why the limiter cannot be loaded into it; null if it can
};

// `status` is the exit status of `run`: 127 not found, 126 not executable.
struct ProgramError {
  int status;
  Error error;
};

// Finds a command as execvp does, and inspects the file (for a script, its interpreter).
[[nodiscard]] std::expected<Program, ProgramError> find_program(const std::string& command);

}  // namespace headgate::cli
