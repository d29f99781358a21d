// Which GPUs of a node are free: in no share, and used by no process. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// The UUIDs of `count` free GPUs, in nvidia-smi's order. A GPU that is cut by MIG is none. Errors: no_capacity, with
// what each of the others is used by.
[[nodiscard]] Result<std::vector<std::string>> free_gpus(const snapshot::Snapshot& snapshot, unsigned count);

}  // namespace headgate::cli
