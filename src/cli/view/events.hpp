// `headgate events`: the node's past events, and with -f the following ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

struct EventsOptions {
  bool follow = false, all = false;
  std::string share, kind;  // kind: what it begins with; "" for all
  std::optional<std::uint64_t> since_ns;
};

void add_events_options(Options& options, EventsOptions& own);

// Folds starts and ends of a share's programs within a minute into one event, if there are at least three:
// "12 runs in alice, 11 ended". It stands where the last of them stood.
[[nodiscard]] std::vector<snapshot::Event> folded(const std::vector<snapshot::Event>& all);

// Formats a line of `headgate events`: "14:02:11  warn   TEXT", with the date if it is not the day of `now_unix_ns`.
[[nodiscard]] std::string event_line(const snapshot::Event& event, std::uint64_t now_unix_ns, const Voice& voice);

}  // namespace headgate::cli
