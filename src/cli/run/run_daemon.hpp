// headgate run where headgated keeps the shares.
#pragma once

#include "cli/command_line.hpp"
#include "cli/run/program.hpp"
#include "config/config.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// Each answers the program's exit status. Errors: the daemon's, before the program has started.

// `run --share NAME`: in a share as it is. Limits beside it are an error.
[[nodiscard]] Result<int> run_in_share(const Invocation& invocation, const config::Config& config,
                                       const Program& program);
// In a share that the daemon makes of this run's options, environment and configuration, and that goes with it; or,
// under a name that a share has, in that one. With --wait, until there is room.
[[nodiscard]] Result<int> run_by_daemon(const http::Endpoint& daemon, const Invocation& invocation,
                                        const config::Config& config, const Program& program);

}  // namespace headgate::cli
