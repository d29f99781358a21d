// Where the daemon's files lie.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.hpp"

namespace headgate::daemon {

struct Places {
  std::string
      runtime_dir;  // HEADGATE_RUNTIME_DIR, what systemd gives, /run/headgate for root, else as `headgate run` has it
  std::string socket;  // of the control socket
  std::string state_file;
  std::string events_file;
};

// Makes the directories that are missing: of root, the runtime directory so that others can pass through to the tenant sockets
// (0755) and the control directory for `group` (0750); of anybody else, both private. `socket`, `state`: of the command line,
// may be empty. Errors: with the directory.
[[nodiscard]] Result<Places> find_places(const std::string& socket, const std::string& state,
                                         std::optional<gid_t> group = std::nullopt);

}  // namespace headgate::daemon
