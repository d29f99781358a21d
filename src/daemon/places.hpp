// Where the daemon's files lie.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace headgate::daemon {

struct Places {
  std::string
      runtime_dir;  // HEADGATE_RUNTIME_DIR, what systemd gives, /run/headgate for root, else as `headgate run` has it
  std::string socket;  // of the control socket
  std::string state_file;
  std::string events_file;
  std::string leases_file;  // of GPU settings
};

// Allows us as many descriptors as we may have: one for each connection, share's socket and tenant, and shells leave
// programs 1,024.
void take_all_descriptors();

// Held while the daemon lives: by no two at once. The kernel lets go of it with the last of its process.
struct PlacesHeld {
  UniqueFd runtime, state;
};
// Errors: denied, where another headgated is in one of them.
[[nodiscard]] Result<PlacesHeld> hold(const Places& places);

// Who may come to the control socket: the group's members, or everybody.
struct Callers {
  std::optional<gid_t> group;
  bool all = false;
};

// Whether find_places() could, and what lies there be written: makes nothing that stays. A daemon that works there is
// no error.
[[nodiscard]] Result<void> check_places(const std::string& socket, const std::string& state);

// Makes the directories that are missing: of root, the runtime directory so that others can pass through to the tenant
// sockets (0755) and the control directory for `callers` (0750, 0755); of anybody else, both private. `socket`,
// `state`: of the command line, may be empty. Errors: with the directory.
[[nodiscard]] Result<Places> find_places(const std::string& socket, const std::string& state,
                                         const Callers& callers = {});

// Makes the control directory anew where somebody has removed it. Nothing where the socket is at a place of the
// operator's choice.
[[nodiscard]] Result<void> keep_control_directory(const Places& places, const Callers& callers);

}  // namespace headgate::daemon
