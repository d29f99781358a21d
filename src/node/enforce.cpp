#include "node/enforce.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <vector>

#include "identity/peer.hpp"
#include "identity/process.hpp"

namespace headgate::node {
namespace {

struct Freezer {
  std::string controllers, path;  // as CgroupLine has them
  std::string file;
  const char* word;
};

// The cgroups that can be frozen, the better first: who stands still in one of version 2 can still be killed, and `headgate run`
// makes such; version 1's freezer is where engines of hybrid hosts have their containers.
std::vector<Freezer> freezers_of(const std::vector<identity::CgroupLine>& lines, const Roots& roots) {
  std::vector<Freezer> freezers;
  for (const identity::CgroupLine& line : lines) {
    const bool new_one = line.hierarchy == 0;
    if (!new_one && line.controllers != "freezer") continue;
    const std::string folder = identity::cgroup_folder(roots.cgroup, line.controllers) + line.path;
    freezers.insert(new_one ? freezers.begin() : freezers.end(),
                    {line.controllers, line.path, folder + (new_one ? "/cgroup.freeze" : "/freezer.state"),
                     new_one ? "1" : "FROZEN"});
  }
  return freezers;
}

bool is_inside(std::uint32_t pid, const Freezer& freezer, const Roots& roots) {
  const auto lines = identity::read_cgroups(roots.proc, pid);
  return lines && std::ranges::any_of(*lines, [&](const identity::CgroupLine& line) {
           return line.controllers == freezer.controllers && identity::lies_within(line.path, freezer.path);
         });
}

bool is_its_own(const Freezer& freezer, const Roots& roots) {
  return freezer.path != "/" && !freezer.path.contains("..") && !is_inside(1, freezer, roots) &&
         !is_inside(static_cast<std::uint32_t>(::getpid()), freezer, roots);
}

Result<std::string> freeze(std::uint32_t pid, const Roots& roots) {
  const auto lines = TRY(identity::read_cgroups(roots.proc, pid));
  const std::string process = "process " + std::to_string(pid);
  std::optional<Error> refusal;
  for (const Freezer& freezer : freezers_of(lines, roots)) {
    if (!is_its_own(freezer, roots)) {
      refusal = {ErrorCode::denied, process + " cannot be frozen: its cgroup " + freezer.path + " is not its own",
                 "start tenants in cgroups of their own (headgate run, systemd-run --scope, a container)"};
      continue;
    }
    std::ofstream file(freezer.file);
    if (file << freezer.word && file.flush()) return "was frozen with its cgroup " + freezer.path;
    refusal = {ErrorCode::denied, "cannot write " + freezer.file, "headgated needs rights over cgroups"};
  }
  if (refusal) return std::unexpected(*refusal);
  return fail(ErrorCode::unsupported, process + " is in no cgroup that can be frozen");
}

Result<std::string> kill(std::uint32_t pid, const Roots& roots) {
  const auto process = TRY(identity::read_process(roots.proc, pid));
  const auto pidfd = TRY(identity::pidfd_of(process, roots.proc));
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) != 0)
    return fail_errno("cannot end process " + std::to_string(pid), errno);
  return std::string("was ended");
}

}  // namespace

Result<AuditPolicy> parse_audit_policy(std::string_view text) {
  if (text == "warn") return AuditPolicy::warn;
  if (text == "freeze") return AuditPolicy::freeze;
  if (text == "kill") return AuditPolicy::kill;
  return fail(ErrorCode::usage, "'" + std::string(text) + "' is no audit policy", "accepted: warn, freeze, kill");
}

Result<std::string> enforce(AuditPolicy policy, std::uint32_t pid, const Roots& roots) {
  if (pid <= 1 || pid == static_cast<std::uint32_t>(::getpid()))
    return fail(ErrorCode::denied, "process " + std::to_string(pid) + " is never acted on");
  switch (policy) {
    case AuditPolicy::warn: return std::string("was named");
    case AuditPolicy::freeze: return freeze(pid, roots);
    case AuditPolicy::kill: return kill(pid, roots);
  }
  return std::string();
}

}  // namespace headgate::node
