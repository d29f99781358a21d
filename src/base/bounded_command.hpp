// Runs a program without a shell, with limits on its time and on the output kept.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate {

struct BoundedCommand {
  std::vector<std::string> words;                         // argv; the first is looked up in PATH
  std::string input{};                                    // for its standard input
  std::optional<std::vector<std::string>> environment{};  // NAME=VALUE; if unset, ours
  std::chrono::milliseconds timeout{1000};                // after it, the process group is killed
  std::chrono::milliseconds grace{1000};                  // for the end of the output after the program has ended
  bool shows_output = false;                              // its output goes where ours does, and is not kept
};

struct CommandOutcome {
  bool timed_out = false;
  int status = 0;      // from waitpid(2)
  std::string output;  // stdout and stderr together: at most 64 KiB, the rest is dropped

  [[nodiscard]] bool succeeded() const { return !timed_out && status == 0; }
  [[nodiscard]] std::string ending() const;  // "ended by signal 9", "ended with status 3"
};

// Blocks until the program has ended; background processes delay the return by at most `grace`. Errors: fail_errno()'s
// if the program cannot be started.
[[nodiscard]] Result<CommandOutcome> run_bounded(const BoundedCommand& command);

}  // namespace headgate
