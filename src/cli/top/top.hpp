// `headgate top`: the live view, and `headgate events`: what happened on the node.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command_line.hpp"
#include "config/config.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

[[nodiscard]] int top(const Invocation& invocation, const config::Config& config);
[[nodiscard]] int events(const Invocation& invocation, const config::Config& config);

// CLOCK_REALTIME, as in events and pictures.
[[nodiscard]] std::uint64_t now_unix_ns();
// "30s", "5m", "1h", "2d": nanoseconds. Errors: usage, with the forms that are accepted.
[[nodiscard]] Result<std::uint64_t> since_option(const std::string& text);
// The same of another option, or word, that takes a length of time up to a year.
[[nodiscard]] Result<std::uint64_t> time_option(const std::string& option, const std::string& text);
// One line of `headgate events`: "14:02:11  warn   TEXT", with its date where it is not of the day of `now_unix_ns`.
[[nodiscard]] std::string event_line(const snapshot::Event& event, std::uint64_t now_unix_ns, const Voice& voice);

}  // namespace headgate::cli
