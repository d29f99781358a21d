// From the words of `headgate power` to the body that the daemon takes. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command_line.hpp"

namespace headgate::cli {

// The body of `power set`, `apply` and `reset` for these GPUs. The ranges are the daemon's to judge. Errors: usage,
// with what was written and what is accepted.
[[nodiscard]] Result<std::string> power_body(const Invocation& invocation, const std::vector<std::string>& uuids);

// Whether the settings are to end: with a time, a process, or without a confirmation.
[[nodiscard]] bool wants_lease(const Invocation& invocation);

}  // namespace headgate::cli
