// The commands that wait in a share: a `headgate run` stays as long as its program. The program may have no process in
// the share before its first, or between two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::tenancy {

inline constexpr std::size_t kMaxRuns = 1024;  // of a share: each is checked whenever one comes
// Of those, runs of invited users: in all, so that the owner has room, and of one user.
inline constexpr std::size_t kMaxInvitedRuns = 512, kMaxRunsOfAnInvitedUser = 64;

// A user that the share lets in, by the kernel's credentials: neither its owner nor an administrator.
struct InvitedUser {
  std::uint32_t uid = 0;
  std::vector<std::uint32_t> gids{};

  friend bool operator==(const InvitedUser&, const InvitedUser&) = default;
};

struct Run {
  std::uint32_t pid = 0;         // in our pid namespace
  std::uint32_t start_time = 0;  // as in identity::Process; 0: unknown, then only the pid counts
  std::optional<InvitedUser>
      invited{};  // none: the owner's, an administrator's, or unknown after a restart of the daemon

  friend bool operator==(const Run&, const Run&) = default;
};

// Returns the process with that pid as it is now. `proc`: where /proc lies.
[[nodiscard]] Run run_of(std::uint32_t pid, const std::string& proc);
// Returns whether the run's process is still the same; true if unknown, so that a share never vanishes under a program.
[[nodiscard]] bool is_alive(const Run& run, const std::string& proc);

// Checks whether one more command may wait in the share of that name beside `runs`. Errors: no_capacity.
[[nodiscard]] Result<void> room_for_run(const std::vector<Run>& runs, const std::string& name,
                                        const std::optional<InvitedUser>& invited);

}  // namespace headgate::tenancy
