#include "tenancy/runs.hpp"

#include <signal.h>

#include <cerrno>

#include "guest/ledger/clock.hpp"
#include "identity/process.hpp"

namespace headgate::tenancy {

Run run_of(std::uint32_t pid, const std::string& proc) {
  const auto process = identity::read_process(proc, pid);
  return {pid, process ? process->start_time : 0};
}

bool is_alive(const Run& run, const std::string& proc) {
  if (::kill(static_cast<pid_t>(run.pid), 0) != 0 && errno == ESRCH) return false;
  const auto now = identity::read_process(proc, run.pid);
  return !now || run.start_time == 0 || now->start_time == 0 || ledger::same_start(now->start_time, run.start_time);
}

}  // namespace headgate::tenancy
