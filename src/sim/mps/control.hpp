// The stand-in for NVIDIA's MPS control daemon: its socket, its commands with the measured answers of release 535 (550
// where HEADGATE_SIM_MPS names it), and clients that the simulated driver sends.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::sim::mps {

// What a test can ask for, in HEADGATE_SIM_MPS, with commas between.
struct Manners {
  bool release_550 = false;  // "550": get_server_status, and a pid file
  bool refuse = false;       // "refuse": the launcher prints an error and exits 1
  bool hang = false;         // "hang": the launcher never returns
  bool deaf = false;         // "deaf": it returns, and nothing listens
  bool nonsense = false;     // "nonsense": answers are no answers
  bool flood = false;        // "flood": answers without end
};
[[nodiscard]] Manners manners_from(std::string_view text);

// Runs the daemon until `quit`; `listening` is called once it can be reached. Errors: of the directories and sockets.
//
// A file `demand` in the log directory makes it do what it names, once: fault, silence, speak, wedge, death.
[[nodiscard]] Result<void> run_daemon(const std::string& pipe, const std::string& log, const Manners& manners,
                                      void (*listening)());

}  // namespace headgate::sim::mps
