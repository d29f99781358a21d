// Standing in the daemon's line for room (`headgate run --wait`), over its restarts too.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/term/output.hpp"
#include "http/endpoint.hpp"

namespace headgate::cli {

// The share of that name, as JSON, once the daemon has made it from `body`. While it is away it is waited for, and
// asked again: at the end of the line. `until`: null: for ever. Errors: the daemon's; no_capacity, when the time is
// over.
[[nodiscard]] Result<std::string> share_by_line(const http::Endpoint& daemon, const std::string& name,
                                                const std::string& body,
                                                std::optional<std::chrono::steady_clock::time_point> until,
                                                const Voice& voice);

}  // namespace headgate::cli
