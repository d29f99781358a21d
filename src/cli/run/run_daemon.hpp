// headgate run with shares kept by headgated.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/run/launch.hpp"
#include "cli/run/run_request.hpp"
#include "cli/term/output.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// A run whose program was found.
struct RunCall {
  const Call& call;  // its words are the program's command line
  const RunOptions& options;
  const Program& program;

  [[nodiscard]] const config::Config& config() const { return call.configuration.config; }
};

// Each returns the program's exit status. Errors: the daemon's, before the program has started.

// `run --share NAME`: joins the share unchanged. Limits given with it are an error.
[[nodiscard]] Result<int> run_in_share(const RunCall& asked);
// Runs in a share that the daemon makes from options, environment and configuration and removes afterwards. If a share
// of that name exists, joins it. With --wait, waits until there is room.
[[nodiscard]] Result<int> run_by_daemon(const http::Endpoint& daemon, const RunCall& asked);

// Returns the share of that name as JSON, once the daemon has made it from `body`. If the daemon goes away, waits for
// it and queues again, at the end. `until`: null means no limit. Errors: the daemon's; no_capacity when the time is
// over.
[[nodiscard]] Result<std::string> share_by_line(const http::Endpoint& daemon, const std::string& name,
                                                const std::string& body,
                                                std::optional<std::chrono::steady_clock::time_point> until,
                                                const Voice& voice);

}  // namespace headgate::cli
