// A pid has a meaning only together with the machine, its boot, and the pid namespace.
#pragma once

#include <string>

namespace headgate::observe {

// Returns ours as one word: the boot's id and the namespace's inode. In two snapshots with the same word, a pid means
// the same process. Empty if /proc does not say.
[[nodiscard]] std::string own_pid_space();

// Returns whether it is the machine's initial one, by which drivers number processes.
[[nodiscard]] bool is_hosts(const std::string& pid_space);

}  // namespace headgate::observe
