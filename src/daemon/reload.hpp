// What reading the configuration again (SIGHUP) changes: some keys at once, the others at the next start. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/options.hpp"

namespace headgate::daemon {

struct Changes {
  std::vector<std::string> applied;  // at once
  std::vector<std::string> waiting;  // for the next start
};

// Returns how `fresh` differs from `running`, which is in effect. Leaves out keys that are not the daemon's
// (defaults.*: the command's), or that its command line overrides.
[[nodiscard]] Changes changes(const config::Config& running, const config::Config& fresh, const Options& options);

// "the configuration was read again; in effect now: audit.policy; waiting for a restart: node.reserve, metrics.file".
[[nodiscard]] std::string describe(const Changes& changes);

// Returns `running` with what is applied of `fresh`: what is then in effect, to compare with the next reading.
[[nodiscard]] config::Config applied_to(config::Config running, const config::Config& fresh, const Changes& changes);

}  // namespace headgate::daemon
