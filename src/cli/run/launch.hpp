// Starts a program and acts for it: forwards signals and returns its status.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

struct Launch {
  std::string path;                      // the file to execute
  std::vector<std::string> arguments;    // argv, including argv[0]
  std::vector<std::string> environment;  // NAME=VALUE
  int cgroup_door = -1;  // OwnCgroup::door(): start the program in that cgroup if permitted, else in ours
};

// Returns the exit status to pass on: the child's, 128 + its signal, or 126 or 127 if it could not be executed (with a
// line on stderr). Errors: failed if fork fails.
//
// The child stays in our process group, so it gets the terminal's signals (Ctrl-C, Ctrl-Z) directly; only signals sent
// to us alone are forwarded. If the child stops under a terminal, we stop too, so that the shell sees its job stop.
[[nodiscard]] Result<int> run_and_wait(const Launch& launch);

// Replaces this process by the program of these words, the first of which is looked up in PATH. Returns only on errors.
[[nodiscard]] std::unexpected<Error> become(const std::vector<std::string>& words);

}  // namespace headgate::cli
