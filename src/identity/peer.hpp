// Identifies the peer of a Unix socket through the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "identity/process.hpp"

namespace headgate::identity {

struct Peer {
  Process process;                    // read while the pidfd showed it alive
  std::uint32_t uid = 0, gid = 0;     // effective, at connect() (SO_PEERCRED)
  std::vector<std::uint32_t> groups;  // supplementary, at connect() (SO_PEERGROUPS)
  UniqueFd pidfd;                     // readable once the whole process has ended
  // From foreign_namespace_owner(): the user that runs the rootless container.
  std::optional<std::uint32_t> user_namespace_owner;
};

// `proc`: see process.hpp; without a mounted /proc (a bare tree), only PID, user and pidfd are known. Errors:
// unsupported if the peer is outside our pid namespace (a daemon needs the host's), failed if the process has ended.
[[nodiscard]] Result<Peer> peer_of(int socket, const std::string& proc);

// Returns the uid that created the process's user namespace; with nested ones, the outermost that is not ours. Null in
// our own namespace, and if we lack permission.
[[nodiscard]] std::optional<std::uint32_t> foreign_namespace_owner(const std::string& proc, std::uint32_t pid);

// Returns true if `proc` shows that we are in the host's pid namespace and so can see every process; also if that is
// unknown, because nothing is mounted there.
[[nodiscard]] bool in_host_pid_namespace(const std::string& proc);

// Returns a pidfd for a process found by other means, if it is still that process. Errors: failed if it has ended.
[[nodiscard]] Result<UniqueFd> pidfd_of(const Process& process, const std::string& proc);

// Returns true if a pidfd's process has ended. Never blocks.
[[nodiscard]] bool has_ended(int pidfd);

}  // namespace headgate::identity
