// headgate sim list|truth|reset|path|fault.
#pragma once

#include "base/result.hpp"
#include "cli/command_line.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// Each returns the text for stdout.
[[nodiscard]] Result<std::string> sim_list(const Invocation& invocation);
[[nodiscard]] Result<std::string> sim_truth(const Invocation& invocation, const config::Config& config);
[[nodiscard]] Result<std::string> sim_reset(const Invocation& invocation, const config::Config& config);
// Errors: usage, naming the rule and the value that cannot be parsed.
[[nodiscard]] Result<std::string> sim_fault(const Invocation& invocation, const config::Config& config);
[[nodiscard]] Result<std::string> sim_path(const Invocation& invocation, const config::Config& config);

}  // namespace headgate::cli
