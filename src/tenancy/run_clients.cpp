#include "tenancy/run_clients.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "guest/ledger/clock.hpp"
#include "identity/process.hpp"

namespace headgate::tenancy {

Run run_of(std::uint32_t pid, const std::string& proc) {
  const auto process = identity::read_process(proc, pid);
  return {pid, process ? process->start_time : 0, {}};
}

bool is_alive(const Run& run, const std::string& proc) {
  if (::kill(static_cast<pid_t>(run.pid), 0) != 0 && errno == ESRCH) return false;
  const auto now = identity::read_process(proc, run.pid);
  // A process that has ended but was not waited for holds nothing.
  if (now && now->ended) return false;
  return !now || run.start_time == 0 || now->start_time == 0 || ledger::same_start(now->start_time, run.start_time);
}

Result<void> room_for_run(const std::vector<Run>& runs, const std::string& name,
                          const std::optional<InvitedUser>& invited) {
  const auto full = [&](std::size_t count, const std::string& whose) {
    return fail(ErrorCode::no_capacity,
                "in the share '" + name + "' wait " + std::to_string(count) + " headgate runs" + whose,
                "one run may start many programs; or make another share");
  };
  if (runs.size() >= kMaxRuns) return full(kMaxRuns, "");
  if (!invited) return {};
  const auto count = [&](auto which) { return static_cast<std::size_t>(std::ranges::count_if(runs, which)); };
  if (count([&](const Run& run) { return run.invited && run.invited->uid == invited->uid; }) >= kMaxRunsOfAnInvitedUser)
    return full(kMaxRunsOfAnInvitedUser, " of uid " + std::to_string(invited->uid));
  if (count([](const Run& run) { return run.invited.has_value(); }) >= kMaxInvitedRuns)
    return full(kMaxInvitedRuns, " of users that it admits");
  return {};
}

}  // namespace headgate::tenancy
