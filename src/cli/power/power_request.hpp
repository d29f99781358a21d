// Translates the arguments of `headgate power` into the daemon's request body. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command_line.hpp"

namespace headgate::cli {

// Returns the body of `power set`, `apply` or `reset` for these GPUs. The daemon checks the ranges. Errors: usage,
// quoting what was written and naming what is accepted.
[[nodiscard]] Result<std::string> power_body(const Invocation& invocation, const std::vector<std::string>& uuids);

// Returns true if the settings end by themselves: with a time, a process, or without a confirmation.
[[nodiscard]] bool wants_lease(const Invocation& invocation);

}  // namespace headgate::cli
