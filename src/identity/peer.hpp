// Who is at the other end of a Unix socket, by the kernel's word.
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
  Process process;                    // as it was while the pidfd said that it lives
  std::uint32_t uid = 0, gid = 0;     // effective, when it connected (SO_PEERCRED)
  std::vector<std::uint32_t> groups;  // supplementary, then (SO_PEERGROUPS)
  UniqueFd pidfd;                     // readable when the whole process has ended
  // foreign_namespace_owner(): whose rootless container it is.
  std::optional<std::uint32_t> user_namespace_owner;
};

// `proc`: see process.hpp; where nothing is mounted there (a bare tree), number, user and pidfd are all that is known.
// Errors: unsupported where the peer lies outside our pid namespace (a daemon needs the host's), failed where the
// process is gone already.
[[nodiscard]] Result<Peer> peer_of(int socket, const std::string& proc);

// Of a process in another user namespace than ours, the uid that made that namespace; of nested ones the outermost that
// is not ours. Null in our own namespace, and where we may not ask.
[[nodiscard]] std::optional<std::uint32_t> foreign_namespace_owner(const std::string& proc, std::uint32_t pid);

// Whether `proc` shows that we live in the machine's own pid namespace, from where every process can be seen; true also
// where that cannot be told (nothing is mounted there).
[[nodiscard]] bool in_host_pid_namespace(const std::string& proc);

// A pidfd of a process that was found otherwise, if it still is that process. Errors: failed where it has ended.
[[nodiscard]] Result<UniqueFd> pidfd_of(const Process& process, const std::string& proc);

// Whether a pidfd's process has ended. Never waits.
[[nodiscard]] bool has_ended(int pidfd);

}  // namespace headgate::identity
