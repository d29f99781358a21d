// A stand-in for NVIDIA's MPS control daemon: its socket, its commands with the measured output of release 535 (a later
// one if HEADGATE_SIM_MPS names it), and clients sent by the simulated driver.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::sim::mps {

// Options that a test sets in HEADGATE_SIM_MPS, separated by commas.
struct Manners {
  bool release_550 = false;  // "550", and what is later: get_server_status, and a pid file
  bool release_555 = false;  // "555": that, and -multiuser-server
  bool later = false;        // "later": that, with -M for the option, as NVIDIA documents it
  bool ignores = false;      // "ignores": takes any option, and does nothing for it
  bool refuse = false;       // "refuse": the launcher prints an error and exits 1
  bool hang = false;         // "hang": the launcher never returns
  bool deaf = false;         // "deaf": it returns, but nothing listens
  bool nonsense = false;     // "nonsense": replies are garbage
  bool flood = false;        // "flood": replies never end
  bool slow = false;         // "slow": the tool takes 200 ms for each command
  bool waits = false;        // "waits": the daemon listens only once its log directory has a file `go`
};
[[nodiscard]] Manners manners_from(std::string_view text);

// Runs the daemon until `quit`; calls `listening` once it accepts connections. Errors: of the directories and sockets.
//
// A file `demand` in the log directory triggers the fault that it names, once: fault, late (a fault that the log does
// not name, nor the next two answers about the server's state), silence, speak,
// wedge, stuck (wedged, and answers no question), death.
// `multi_user`: its server is root's and takes clients of all users.
[[nodiscard]] Result<void> run_daemon(const std::string& pipe, const std::string& log, const Manners& manners,
                                      bool multi_user, void (*listening)());

}  // namespace headgate::sim::mps
