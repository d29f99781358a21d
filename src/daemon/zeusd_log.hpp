// Logs each command that a GPU's worker has carried out, reads too.
#pragma once

#include <cstdio>
#include <string>

#include "base/utf8.hpp"
#include "power/control_queues.hpp"

namespace headgate::daemon {

// Writes "headgated: request 7 of uid 1000: GPU 0 set_power_limit 200 W: 350 W -> 200 W (done in 80 us, own part 12
// us)" to stderr.
inline void log_executed(const char* program, const power::Executed& done) {
  const std::string change = done.from.empty() && done.to.empty() ? "" : ": " + done.from + " -> " + done.to;
  const std::string merged =
      done.superseded == 0 ? "" : ", replaced " + std::to_string(done.superseded) + " earlier commands";
  const std::string text = "request " + std::to_string(done.request) + " of " + printable(done.caller.text) + ": GPU " +
                           std::to_string(done.gpu) + " " + power::describe(done.command) +
                           (done.result ? change : " FAILED: " + done.result.error().message) + " (done in " +
                           std::to_string(done.done_ns / 1000) + " us, own part " +
                           std::to_string(done.overhead_ns / 1000) + " us" + merged + ")";
  std::fprintf(stderr, "%s: %s\n", program, text.c_str());
}

}  // namespace headgate::daemon
