// What it means that the configuration is read again (SIGHUP): some keys take effect at once, the others at the next
// start. Pure.
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

// `running`: what is in effect. Keys that are not the daemon's (defaults.*: the command's), or that its command line
// overrides, are left out.
[[nodiscard]] Changes changes(const config::Config& running, const config::Config& fresh, const Options& options);

// "the configuration was read again; in effect now: audit.policy; waiting for a restart: node.reserve, metrics.file".
[[nodiscard]] std::string describe(const Changes& changes);

// `running` with what is applied of `fresh`: what is in effect then, and what the next reading is compared with.
[[nodiscard]] config::Config applied_to(config::Config running, const config::Config& fresh, const Changes& changes);

}  // namespace headgate::daemon
