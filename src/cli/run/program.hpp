// Whether a program can be held: the limiter must be loadable into it.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace headgate::cli {

struct Program {
  std::string path;                   // what will be executed
  std::optional<std::string> unheld;  // why the limiter cannot be loaded into it; null: it can
};

// Errors carry the exit status of `run` in their text's meaning: not found (127) and not executable (126).
struct ProgramError {
  int status;
  Error error;
};

// Looks a command up as execvp does, and reads the file (for a script, its interpreter).
[[nodiscard]] std::expected<Program, ProgramError> find_program(const std::string& command);

}  // namespace headgate::cli
