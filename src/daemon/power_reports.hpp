// Reports what is done to the GPUs' power and clocks: in the log, and as events. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "base/result.hpp"
#include "observe/event_log.hpp"
#include "power/control_queues.hpp"
#include "power/lease_keeper.hpp"
#include "power/write_audit.hpp"

namespace headgate::daemon {

class PowerReports {
 public:
  explicit PowerReports(observe::EventLog& events) : events_(events) {}

  // Called on the workers' threads. `queues`: the queues that ran the command.
  void executed(const power::Executed& done, power::ControlQueues& queues);
  void lease(const power::LeaseNews& news) const;
  // Reports that the file of leases was damaged and was renamed to `aside`.
  void damaged_leases(const std::string& why, const std::string& aside) const;
  // Reports whether the site's own settings could be set.
  void site(const Result<void>& done) const;
  // Call it once a second: reports writes that were held back to be counted.
  void tick(power::ControlQueues& queues);

 private:
  void tell(const power::AuditEntry& entry, power::ControlQueues& queues) const;
  void warn_if_forgotten(const power::Executed& done, power::ControlQueues& queues);

  observe::EventLog& events_;
  std::mutex mutex_;  // guards all below
  power::WriteAudit audit_;
  std::set<std::uint32_t> forgetful_;
};

// Logs a command that a GPU's worker has carried out, reads too: "headgated: request 7 of uid 1000: GPU 0
// set_power_limit 200 W: 350 W -> 200 W (done in 80 us, own part 12 us)" to stderr.
void log_executed(const char* program, const power::Executed& done);

}  // namespace headgate::daemon
