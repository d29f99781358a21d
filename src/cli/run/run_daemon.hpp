// headgate run with shares kept by headgated.
#pragma once

#include "cli/command_line.hpp"
#include "cli/run/program.hpp"
#include "config/config.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// Each returns the program's exit status. Errors: the daemon's, before the program has started.

// `run --share NAME`: joins the share unchanged. Limits given with it are an error.
[[nodiscard]] Result<int> run_in_share(const Invocation& invocation, const config::Config& config,
                                       const Program& program);
// Runs in a share that the daemon makes from options, environment and configuration and removes afterwards. If a share
// of that name exists, joins it. With --wait, waits until there is room.
[[nodiscard]] Result<int> run_by_daemon(const http::Endpoint& daemon, const Invocation& invocation,
                                        const config::Config& config, const Program& program);

}  // namespace headgate::cli
