#include "node/enforce.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <vector>

#include "guest/ledger/slot.hpp"
#include "identity/cgroup.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"

namespace headgate::node {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kApart = "headgate-frozen-";

struct Freezer {
  std::string controllers, path;  // as in CgroupLine
  std::string folder;             // its directory
  const char *file, *word;        // what to write there to freeze it
};

// Returns the cgroups that can be frozen, version 2 first: a process frozen there can still be killed, and `headgate
// run` makes such. Engines of hybrid hosts have their containers in version 1's freezer.
std::vector<Freezer> freezers_of(const std::vector<identity::CgroupLine>& lines, const Roots& roots) {
  std::vector<Freezer> freezers;
  for (const identity::CgroupLine& line : lines) {
    const bool new_one = line.hierarchy == 0;
    if ((!new_one && line.controllers != "freezer") || line.path.contains("..")) continue;
    freezers.insert(new_one ? freezers.begin() : freezers.end(),
                    {line.controllers, line.path, identity::cgroup_folder(roots.cgroup, line.controllers) + line.path,
                     new_one ? "cgroup.freeze" : "freezer.state", new_one ? "1" : "FROZEN"});
  }
  return freezers;
}

bool is_inside(std::uint32_t pid, const Freezer& freezer, const Roots& roots) {
  const auto lines = identity::read_cgroups(roots.proc, pid);
  return lines && std::ranges::any_of(*lines, [&](const identity::CgroupLine& line) {
           return line.controllers == freezer.controllers && identity::lies_within(line.path, freezer.path);
         });
}

// A login session is a person's, with the shell and all that was started from it.
bool is_session(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.starts_with("session-") && path.ends_with(".scope");
}

// Returns whether the cgroup holds a process of another user that is not in the same container. Cron, and a login
// without a session, leave the programs of all users in the cgroup of the service that started them.
bool holds_others(const identity::Process& his, const Freezer& freezer, const Roots& roots) {
  static const std::uint32_t own_namespace = ledger::own_identity().pidns_inode;
  const bool contained = his.pidns_inode != 0 && his.pidns_inode != own_namespace;
  const auto is_other = [&](std::uint32_t pid) {
    const auto process = identity::read_process(roots.proc, pid);
    if (!process) return process.error().code == ErrorCode::denied;  // else it has ended
    return process->uid != his.uid && !(contained && process->pidns_inode == his.pidns_inode);
  };
  const auto some_other = [&](const fs::path& folder) {
    const std::string file = folder / "cgroup.procs";
    const auto list = identity::read_file(file);
    if (!list) return ::access(file.c_str(), F_OK) == 0;
    std::istringstream pids(*list);
    for (std::uint32_t pid = 0; pids >> pid;)
      if (is_other(pid)) return true;
    return false;
  };
  if (some_other(freezer.folder)) return true;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(freezer.folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    if (entry->is_directory(failed) && some_other(entry->path())) return true;
  // What could not be looked at (a cgroup that was removed meanwhile) may hold others.
  return static_cast<bool>(failed);
}

bool is_its_own(const identity::Process& his, const Freezer& freezer, const Roots& roots) {
  return freezer.path != "/" && !is_session(freezer.path) && !is_inside(1, freezer, roots) &&
         !is_inside(static_cast<std::uint32_t>(::getpid()), freezer, roots) && !holds_others(his, freezer, roots);
}

Result<void> write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (file << text && file.flush()) return {};
  return fail(ErrorCode::denied, "cannot write " + path, "headgated needs rights over cgroups");
}

Error ended(std::uint32_t pid) { return {ErrorCode::failed, "process " + std::to_string(pid) + " has ended", {}}; }

// Removes the cgroups of ended processes that were frozen below it. One that is in use cannot be removed.
void remove_left(const std::string& folder) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().filename().string().starts_with(kApart)) ::rmdir(entry->path().c_str());
}

Frozen as_frozen(const Freezer& freezer) {
  return {freezer.path, freezer.folder + "/" + freezer.file, freezer.controllers.empty() ? "0" : "THAWED"};
}

// Moves a process that shares its cgroup into a new one below it.
Result<Freezer> set_apart(std::uint32_t pid, int pidfd, const Freezer& shared) {
  remove_left(shared.folder);
  Freezer own = shared;
  const std::string name = (shared.path.ends_with('/') ? "" : "/") + std::string(kApart) + std::to_string(pid);
  own.path += name;
  own.folder += name;
  if (::mkdir(own.folder.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno("cannot make the cgroup " + own.folder, errno, "headgated needs rights over cgroups");
  const auto moved = write(own.folder + "/cgroup.procs", std::to_string(pid));
  // Only this shows that the pid still was that process's.
  if (moved && !identity::has_ended(pidfd)) return own;
  ::rmdir(own.folder.c_str());
  return std::unexpected(moved ? ended(pid) : moved.error());
}

Result<EnforcementResult> freeze(std::uint32_t pid, int pidfd, const Roots& roots) {
  auto freezers = freezers_of(TRY(identity::read_cgroups(roots.proc, pid)), roots);
  const identity::Process his = TRY(identity::read_process(roots.proc, pid));
  // Only this shows that these are the cgroups of the pidfd's process.
  if (identity::has_ended(pidfd)) return std::unexpected(ended(pid));
  const auto freeze = [](const Freezer& freezer) { return write(freezer.folder + "/" + freezer.file, freezer.word); };
  Error refusal{ErrorCode::unsupported, "process " + std::to_string(pid) + " is in no cgroup that can be frozen", {}};
  const auto shared =
      std::ranges::stable_partition(freezers, [&](const Freezer& freezer) { return is_its_own(his, freezer, roots); });
  for (const Freezer& freezer : std::span(freezers.begin(), shared.begin())) {
    const auto done = freeze(freezer);
    if (done) return EnforcementResult{"was frozen with its cgroup " + freezer.path, as_frozen(freezer)};
    refusal = done.error();
  }
  for (const Freezer& freezer : shared) {
    const auto own = set_apart(pid, pidfd, freezer);
    const auto done = own ? freeze(*own) : std::unexpected(own.error());
    if (done) return EnforcementResult{"was frozen alone, in the cgroup " + own->path, as_frozen(*own)};
    refusal = done.error();
  }
  return std::unexpected(refusal);
}

Result<EnforcementResult> kill(std::uint32_t pid, int pidfd) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) != 0)
    return fail_errno("cannot end process " + std::to_string(pid), errno);
  return EnforcementResult{"was ended", {}};
}

// Returns field 3 of stat, proc(5): it follows the program's name, which may hold anything, brackets too.
char state_of(const std::string& stat) {
  const auto name_end = stat.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

bool is_frozen(const identity::CgroupLine& line, const Roots& roots) {
  if (line.path.contains("..")) return false;  // not below our root
  if (line.controllers == "freezer") {
    const auto state = identity::read_file(roots.cgroup + "/freezer" + line.path + "/freezer.state");
    return state && state->starts_with("FROZEN");
  }
  if (line.hierarchy != 0) return false;
  // The effective state, whichever ancestor was frozen.
  const auto events = identity::read_file(roots.cgroup + line.path + "/cgroup.events");
  return events && events->contains("frozen 1");
}

}  // namespace

Result<AuditPolicy> parse_audit_policy(std::string_view text) {
  if (text == "warn") return AuditPolicy::warn;
  if (text == "freeze") return AuditPolicy::freeze;
  if (text == "kill") return AuditPolicy::kill;
  return fail(ErrorCode::usage, "'" + std::string(text) + "' is no audit policy", "accepted: warn, freeze, kill");
}

Result<EnforcementResult> enforce(AuditPolicy policy, const ProcessRef& process_ref, const Roots& roots) {
  const std::string who = "process " + std::to_string(process_ref.pid);
  if (process_ref.pid <= 1 || process_ref.pid == static_cast<std::uint32_t>(::getpid()))
    return fail(ErrorCode::denied, who + " is never acted on");
  if (policy == AuditPolicy::warn) return EnforcementResult{"was named", {}};
  if (process_ref.start_time == 0)
    return fail(ErrorCode::failed,
                who + " is left alone: /proc does not say when it began, so it may be another by now",
                "headgated needs a /proc that shows all processes");
  const auto pidfd =
      TRY(identity::pidfd_of({.pid = process_ref.pid, .start_time = process_ref.start_time}, roots.proc));
  return policy == AuditPolicy::kill ? kill(process_ref.pid, pidfd.get()) : freeze(process_ref.pid, pidfd.get(), roots);
}

void FrozenProcesses::add(const ProcessRef& process_ref, Frozen frozen) {
  frozen_[process_ref.pid] = {.start_time = process_ref.start_time, .frozen = std::move(frozen)};
}

bool FrozenProcesses::still_stands(std::uint32_t pid, const FrozenProcess& entry) const {
  const auto process = identity::read_process(roots_.proc, pid);
  if (!process || process->start_time != entry.start_time) return false;
  const auto lines = identity::read_cgroups(roots_.proc, pid);
  const auto inside = [&](const identity::CgroupLine& line) {
    return identity::lies_within(line.path, entry.frozen.cgroup);
  };
  if (!lines || std::ranges::none_of(*lines, inside)) return false;
  const auto word = identity::read_file(entry.frozen.file);
  return word && !word->starts_with(entry.frozen.thaw);
}

void FrozenProcesses::write_into(snapshot::Snapshot& snapshot) {
  std::erase_if(frozen_, [this](const auto& one) { return !still_stands(one.first, one.second); });
  for (snapshot::Process& process : snapshot.processes) {
    const auto found = frozen_.find(process.pid);
    if (found == frozen_.end()) continue;
    const Frozen& frozen = found->second.frozen;
    process.freeze = {.cgroup = frozen.cgroup, .thaw = "echo " + frozen.thaw + " > " + frozen.file};
  }
}

bool is_frozen(std::uint32_t pid, const Roots& roots) {
  const auto stat = identity::read_file(roots.proc + "/" + std::to_string(pid) + "/stat");
  if (stat && (state_of(*stat) == 'T' || state_of(*stat) == 't')) return true;
  const auto lines = identity::read_cgroups(roots.proc, pid);
  return lines && std::ranges::any_of(*lines, [&](const auto& line) { return is_frozen(line, roots); });
}

}  // namespace headgate::node
