// Finds the cgroups that are one share's alone: those that `headgate run` makes, and those of containers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "node/enforce.hpp"
#include "observe/join.hpp"

namespace headgate::node {

// A `headgate run` that waits in a share. Its program may be one that never registers.
struct RunInShare {
  std::string share;
  std::uint32_t pid = 0;
};

// Returns the part of a version 2 path up to the innermost cgroup of a run or a container; empty if there is none.
[[nodiscard]] std::string own_part(const std::string& path);

// Returns one target for each such cgroup and each GPU on which its share has a memory limit. Processes that only claim
// to be in a share do not count. A cgroup with processes of several shares has targets without a share.
[[nodiscard]] std::vector<observe::FenceTarget> own_cgroups(const observe::JoinInput& input,
                                                            const std::vector<RunInShare>& runs,
                                                            const Roots& roots = {});

}  // namespace headgate::node
