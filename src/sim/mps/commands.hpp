// Commands of release 535's control daemon and their output, as measured. Like the real daemon, it refuses with a
// message or silently, never with an exit status.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/mps/control.hpp"
#include "sim/mps/servers.hpp"

namespace headgate::sim::mps {

struct Defaults {
  double percent = 100;
  std::map<std::string, std::string> pinned;  // by device, in the daemon's format
  int priority = 0;
};

// Returns what the daemon prints for a line, without the last newline; nothing if it does not reply (a wedged server).
[[nodiscard]] std::optional<std::string> answer_to(const std::string& line, const Manners& manners, Defaults& defaults,
                                                   Servers& servers);

}  // namespace headgate::sim::mps
