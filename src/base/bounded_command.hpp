// Runs a program without a shell, with a bound on its time and on what is kept of its output.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate {

struct BoundedCommand {
  std::vector<std::string> words;                         // argv; the first is looked up in PATH
  std::string input{};                                    // its standard input: at most 4096 bytes
  std::optional<std::vector<std::string>> environment{};  // NAME=VALUE; none: our own
  std::chrono::milliseconds timeout{1000};                // then its process group is killed
  std::chrono::milliseconds grace{1000};                  // for the output's end, once the program has ended
};

struct CommandOutcome {
  bool timed_out = false;
  int status = 0;      // as of waitpid(2)
  std::string output;  // standard output and error together: at most 64 KiB, the rest is read and dropped

  [[nodiscard]] bool succeeded() const { return !timed_out && status == 0; }
};

// Blocks until the program has ended. A process that it leaves behind does not keep the caller waiting longer than
// `grace`. Errors: usage (input that is too long), and fail_errno()'s where the program cannot be started.
[[nodiscard]] Result<CommandOutcome> run_bounded(const BoundedCommand& command);

}  // namespace headgate
