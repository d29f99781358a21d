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

// Raises our limit of descriptors as far as we may, up to 65,536: each connection, share's socket and tenant takes one,
// and shells leave programs 1,024.
void take_all_descriptors();

// Locks on the directories, held by one daemon at a time. The kernel releases them with the process.
struct PlacesHeld {
  UniqueFd runtime, state;
};
// Blocks for two seconds at most. Errors: denied if another headgated is in one of them.
[[nodiscard]] Result<PlacesHeld> hold(const Places& places);

// Users of the control socket: the group's members, or all.
struct Callers {
  std::optional<gid_t> group;
  bool all = false;
};

// Checks whether find_places() could succeed, and its files be written; leaves nothing behind. A daemon that works
// there is no error.
[[nodiscard]] Result<void> check_places(const std::string& socket, const std::string& state);

// Makes the missing directories. As root: the runtime directory so that others can pass through to the tenant sockets
// (0755), and the control directory for `callers` (0750, 0755). As another user: both private. `socket`, `state`: of
// the command line, may be empty. Errors: name the directory.
[[nodiscard]] Result<Places> find_places(const std::string& socket, const std::string& state,
                                         const Callers& callers = {});

// Makes the control directory again if it was removed. Does nothing if the operator chose the socket's place.
[[nodiscard]] Result<void> keep_control_directory(const Places& places, const Callers& callers);

}  // namespace headgate::daemon
