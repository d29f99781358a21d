// Where the daemon's files lie.
#pragma once

#include <string>

#include "base/result.hpp"

namespace headgate::daemon {

struct Places {
  std::string
      runtime_dir;  // HEADGATE_RUNTIME_DIR, what systemd gives, /run/headgate for root, else as `headgate run` has it
  std::string socket;  // of the control socket
  std::string state_file;
};

// Makes the directories that are missing. `socket`, `state`: of the command line, may be empty. Errors: with the directory.
[[nodiscard]] Result<Places> find_places(const std::string& socket, const std::string& state);

}  // namespace headgate::daemon
