// Commands that show a snapshot of the node: status, ps, free, gpu ls, share ls; and why, which explains it.
#pragma once

#include "cli/command_line.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// Each returns the exit status; if it is not 0, the reason is on stderr.
[[nodiscard]] int node_command(const Invocation& invocation, const config::Config& config);
[[nodiscard]] int why(const Invocation& invocation, const config::Config& config);

// Returns true if node_command() handles that command.
[[nodiscard]] bool is_node_command(const std::string& word);

}  // namespace headgate::cli
