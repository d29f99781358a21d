// Starts a program and stands in for it: signals go through to it, and its status comes back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

struct Launch {
  std::string path;                      // what is executed
  std::vector<std::string> arguments;    // argv, beginning with the name
  std::vector<std::string> environment;  // NAME=VALUE
  int cgroup_door = -1;                  // OwnCgroup::door(): the program starts in that cgroup; where it may not, here
};

// The exit status to pass on: the child's, 128 + its signal, 126 or 127 where it could not be executed (with a line on
// stderr). Errors: failed, where no process could be made.
//
// The child stays in our process group: what the terminal sends (Ctrl-C, Ctrl-Z) reaches it from there, and only what
// was sent to us alone is passed on. When the child is stopped under a terminal, we stop too, so that the shell sees
// its job stop.
[[nodiscard]] Result<int> run_and_wait(const Launch& launch);

}  // namespace headgate::cli
