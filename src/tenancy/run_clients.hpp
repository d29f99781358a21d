// The commands that wait in a share: a `headgate run` stays for as long as its program, which may have no process in
// the share yet, or none at the moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::tenancy {

inline constexpr std::size_t kMaxRuns = 1024;  // of a share: each is looked for whenever one comes
// Of those, runs of whom the share lets in: in all, so that its owner has room, and of one of them.
inline constexpr std::size_t kMaxInvitedRuns = 512, kMaxRunsOfAnInvitedUser = 64;

// A user whom the share lets in, by the kernel's word: neither its owner nor an administrator.
struct InvitedUser {
  std::uint32_t uid = 0;
  std::vector<std::uint32_t> gids{};

  friend bool operator==(const InvitedUser&, const InvitedUser&) = default;
};

struct Run {
  std::uint32_t pid = 0;         // in our pid namespace
  std::uint32_t start_time = 0;  // as of identity::Process; 0: not known, then the number alone counts
  std::optional<InvitedUser>
      invited{};  // none: the owner's, an administrator's, or not known, after a restart of the daemon

  friend bool operator==(const Run&, const Run&) = default;
};

// The process of that number, as it is now. `proc`: where /proc lies.
[[nodiscard]] Run run_of(std::uint32_t pid, const std::string& proc);
// Whether it is still that process. True also where that cannot be told: a share stays rather than goes under somebody.
[[nodiscard]] bool is_alive(const Run& run, const std::string& proc);

// Whether one more may wait in the share of that name beside `runs`. Errors: no_capacity.
[[nodiscard]] Result<void> room_for_run(const std::vector<Run>& runs, const std::string& name,
                                        const std::optional<InvitedUser>& invited);

}  // namespace headgate::tenancy
