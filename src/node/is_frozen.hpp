// Finds out whether a process is frozen (SIGSTOP or a frozen cgroup): it then accounts for nothing it has in flight.
#pragma once

#include <cstdint>

#include "node/enforce.hpp"

namespace headgate::node {

// Returns whether its main thread is stopped, by a signal or a tracer, or it is in a frozen cgroup, of version 2 or
// version 1's freezer. False if that cannot be seen.
[[nodiscard]] bool is_frozen(std::uint32_t pid, const Roots& roots = {});

}  // namespace headgate::node
