// What a process's number means depends on the machine, since when it runs, and the pid namespace it is looked at from.
#pragma once

#include <string>

namespace headgate::observe {

// Ours, in one word: the boot's id and the namespace's inode. Two snapshots with the same mean the same process by a
// number. Empty where /proc does not tell.
[[nodiscard]] std::string own_pid_space();

// Whether it is the machine's own, in which drivers number processes.
[[nodiscard]] bool is_hosts(const std::string& pid_space);

}  // namespace headgate::observe
