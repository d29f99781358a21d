// `headgate top`: the live view; and `headgate events`: the node's events.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command_line.hpp"
#include "config/config.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

[[nodiscard]] int top(const Invocation& invocation, const config::Config& config);
[[nodiscard]] int events(const Invocation& invocation, const config::Config& config);

// Returns CLOCK_REALTIME in ns, as in events and snapshots.
[[nodiscard]] std::uint64_t now_unix_ns();
// Parses "30s", "5m", "1h", "2d" to nanoseconds. Errors: usage, listing the accepted forms.
[[nodiscard]] Result<std::uint64_t> since_option(const std::string& text);
// The same for other options or arguments that take a duration of up to a year.
[[nodiscard]] Result<std::uint64_t> time_option(const std::string& option, const std::string& text);
// Formats a line of `headgate events`: "14:02:11  warn   TEXT", with the date if it is not the day of `now_unix_ns`.
[[nodiscard]] std::string event_line(const snapshot::Event& event, std::uint64_t now_unix_ns, const Voice& voice);

}  // namespace headgate::cli
