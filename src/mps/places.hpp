// Where the control daemon of one GPU and group lies, and what its programs and its clients are told of that.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace headgate::mps {

// A GPU has one MPS control daemon for each user whose shares run under MPS there: a server serves one user at a time.
struct GroupKey {
  std::string uuid;
  std::uint32_t uid = 0;  // owner of the group's shares

  friend bool operator==(const GroupKey&, const GroupKey&) = default;
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};
// "GPU-1a2b (uid 1000)", for messages.
[[nodiscard]] std::string describe(const GroupKey& group);

struct Places {
  std::string directory, pipe, log;

  friend bool operator==(const Places&, const Places&) = default;
};

// BASE/UUID/UID/{pipe,log}. Errors: usage, where UUID is no name of a directory, or a socket in the pipe directory
// would have a path of more than 107 bytes.
[[nodiscard]] Result<Places> places_of(const std::string& base, const GroupKey& group);

// Makes the directories. Others can pass through all of them but `log`: a server runs as its clients' user and must
// reach the pipe. Errors: denied, where one of them is another user's or others may write it; fail_errno()'s.
[[nodiscard]] Result<void> make_places(const std::string& base, const Places& places);

// Sockets, lock and pid file that a former daemon left. Only where none runs.
void remove_stale(const Places& places);

using Variables = std::vector<std::pair<std::string, std::string>>;

// Of the control daemon, beside our own environment without any variable of MPS, CUDA or the preload: NAME=VALUE.
[[nodiscard]] std::vector<std::string> tool_environment(const Places& places, const std::string& uuid);

}  // namespace headgate::mps
