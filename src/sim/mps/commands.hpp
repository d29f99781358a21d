// Commands of release 535's control daemon and their answers, as measured. What is refused is refused as there: in
// words, or in silence, and never by an exit status.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sim/mps/control.hpp"
#include "sim/mps/servers.hpp"

namespace headgate::sim::mps {

struct Defaults {
  double percent = 100;
  std::map<std::string, std::string> pinned;  // by device, as it is shown
  int priority = 0;
};

// What the daemon prints for a line, without the last newline; nothing where it does not answer (a wedged server).
[[nodiscard]] std::optional<std::string> answer_to(const std::string& line, const Manners& manners, Defaults& defaults,
                                                   Servers& servers);

}  // namespace headgate::sim::mps
