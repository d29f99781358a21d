// The calling process's identity as /proc shows it; a bare root directory may have no /proc.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine.hpp"

namespace headgate::sim {

struct OwnIdentity {
  ProcessIdentity identity;
  std::array<char, 16> comm{};
  [[nodiscard]] ProcessIdentity view() const;
};

[[nodiscard]] OwnIdentity own_identity();
// Returns the inodes of the process's version 2 cgroup and those around it, innermost first, as far as it sees their
// directories; the rest is 0.
[[nodiscard]] std::array<std::uint64_t, kMaxCgroups> own_cgroups();
// Returns a number that is random per exec and the same for every library of the process.
[[nodiscard]] std::uint32_t own_image();
// Returns the inode of the pid namespace; 0 if unknown.
[[nodiscard]] std::uint64_t own_pid_namespace();

// Returns the process of that thread if it is stopped (by SIGSTOP, not by a debugger); 0 if it is not, or unknown.
[[nodiscard]] int stopped_process_of(int thread);

}  // namespace headgate::sim
