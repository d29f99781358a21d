// Whether a process is frozen (SIGSTOP or a frozen cgroup), so that it can account for nothing that it has in flight.
#pragma once

#include <cstdint>

#include "node/enforce.hpp"

namespace headgate::node {

// Stopped or traced to a stop (its main thread), or in a cgroup that is frozen, of version 2 or version 1's freezer.
// False where that cannot be seen.
[[nodiscard]] bool is_frozen(std::uint32_t pid, const Roots& roots = {});

}  // namespace headgate::node
