// Directories of the control daemon of one GPU and group, and the environment for the tool and its clients.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace headgate::mps {

// GroupKey::uid of a control daemon in multi-user mode, whose one server serves the shares of all users.
inline constexpr std::uint32_t kAllUsers = ~0u;

// A GPU has one MPS control daemon per user with shares under MPS there, because a server serves one user at a time; or
// one for all users, in multi-user mode.
struct GroupKey {
  std::string uuid;
  std::uint32_t uid = 0;  // owner of the group's shares, or kAllUsers

  [[nodiscard]] bool is_for_all() const { return uid == kAllUsers; }

  friend bool operator==(const GroupKey&, const GroupKey&) = default;
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};
// Returns "GPU-1a2b (uid 1000)" or "GPU-1a2b (all users)", for messages.
[[nodiscard]] std::string describe(const GroupKey& group);

struct Places {
  std::string directory, pipe, log;

  friend bool operator==(const Places&, const Places&) = default;
};

// Returns BASE/UUID/UID/{pipe,log}, with `all` as UID for all users. Errors: usage if UUID is not a valid directory
// name, or a socket in the pipe directory would have a path of more than 107 bytes.
[[nodiscard]] Result<Places> places_of(const std::string& base, const GroupKey& group);

// Creates the directories. All but `log` are open to other users (0711), because a server runs as its clients' user and
// must reach the pipe. Errors: denied if another user owns one or may write it; fail_errno()'s.
[[nodiscard]] Result<void> make_places(const std::string& base, const Places& places);

// Removes a former daemon's sockets, lock and pid file. Only if no daemon runs.
void remove_stale(const Places& places);

using Variables = std::vector<std::pair<std::string, std::string>>;

// Returns the control daemon's environment: ours without MPS, CUDA and preload variables, plus its own. NAME=VALUE.
[[nodiscard]] std::vector<std::string> tool_environment(const Places& places, const std::string& uuid);

}  // namespace headgate::mps
