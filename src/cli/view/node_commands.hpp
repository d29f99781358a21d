// The words that show a snapshot of the node: status, ps, free, gpu ls, share ls, and why, which explains it.
#pragma once

#include "cli/command_line.hpp"
#include "config/config.hpp"

namespace headgate::cli {

// Each returns the exit status, having said on stderr why it is not 0.
[[nodiscard]] int node_command(const Invocation& invocation, const config::Config& config);
[[nodiscard]] int why(const Invocation& invocation, const config::Config& config);

// Whether node_word() is for that word.
[[nodiscard]] bool is_node_command(const std::string& word);

}  // namespace headgate::cli
