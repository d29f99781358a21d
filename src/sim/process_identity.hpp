// Who the calling process is, as far as /proc tells; a bare root may have none.
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
// Random per exec, the same for every library of the process.
[[nodiscard]] std::uint32_t own_image();
// Inode of the pid namespace; 0 where unknown.
[[nodiscard]] std::uint64_t own_pid_namespace();

// The process to which that thread belongs, if it is stopped (SIGSTOP, not by a debugger); 0 where it is not, or
// unknown.
[[nodiscard]] int stopped_process_of(int thread);

}  // namespace headgate::sim
