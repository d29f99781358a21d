// A stand-in for NVIDIA's MPS control daemon: its socket, its commands with the measured output of release 535 (550 if
// HEADGATE_SIM_MPS names it), and clients sent by the simulated driver.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::sim::mps {

// Options that a test sets in HEADGATE_SIM_MPS, separated by commas.
struct Manners {
  bool release_550 = false;  // "550": get_server_status, and a pid file
  bool refuse = false;       // "refuse": the launcher prints an error and exits 1
  bool hang = false;         // "hang": the launcher never returns
  bool deaf = false;         // "deaf": it returns, but nothing listens
  bool nonsense = false;     // "nonsense": replies are garbage
  bool flood = false;        // "flood": replies never end
};
[[nodiscard]] Manners manners_from(std::string_view text);

// Runs the daemon until `quit`; calls `listening` once it accepts connections. Errors: of the directories and sockets.
//
// A file `demand` in the log directory triggers the fault that it names, once: fault, silence, speak, wedge, death.
[[nodiscard]] Result<void> run_daemon(const std::string& pipe, const std::string& log, const Manners& manners,
                                      void (*listening)());

}  // namespace headgate::sim::mps
