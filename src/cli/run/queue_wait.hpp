// Waits in the daemon's queue for room (`headgate run --wait`), across daemon restarts.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/term/output.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// Returns the share of that name as JSON, once the daemon has made it from `body`. If the daemon goes away, waits for
// it and queues again, at the end. `until`: null means no limit. Errors: the daemon's; no_capacity when the time is
// over.
[[nodiscard]] Result<std::string> share_by_line(const http::Endpoint& daemon, const std::string& name,
                                                const std::string& body,
                                                std::optional<std::chrono::steady_clock::time_point> until,
                                                const Voice& voice);

}  // namespace headgate::cli
