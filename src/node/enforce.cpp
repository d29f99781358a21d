#include "node/enforce.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "identity/peer.hpp"
#include "identity/process.hpp"

namespace headgate::node {
namespace {

struct Freezer {
  std::string controllers, path;  // as CgroupLine has them
  std::string file;               // below the cgroup file systems' root
  const char* word;
};

// The cgroup that can be frozen: of the freezer where version 1 has one, else of version 2.
Result<Freezer> freezer_of(std::uint32_t pid, const Roots& roots) {
  const auto lines = TRY(identity::read_cgroups(roots.proc, pid));
  const auto v1 = std::ranges::find(lines, "freezer", &identity::CgroupLine::controllers);
  const auto v2 = std::ranges::find(lines, 0u, &identity::CgroupLine::hierarchy);
  const auto& line = v1 != lines.end() ? v1 : v2;
  if (line == lines.end())
    return fail(ErrorCode::unsupported, "process " + std::to_string(pid) + " is in no cgroup that can be frozen");
  const bool old = v1 != lines.end();
  return Freezer{line->controllers, line->path,
                 (old ? "/freezer" : "") + line->path + (old ? "/freezer.state" : "/cgroup.freeze"),
                 old ? "FROZEN" : "1"};
}

bool is_inside(std::uint32_t pid, const Freezer& freezer, const Roots& roots) {
  const auto lines = identity::read_cgroups(roots.proc, pid);
  return lines && std::ranges::any_of(*lines, [&](const identity::CgroupLine& line) {
           return line.controllers == freezer.controllers && identity::lies_within(line.path, freezer.path);
         });
}

Result<std::string> freeze(std::uint32_t pid, const Roots& roots) {
  const Freezer freezer = TRY(freezer_of(pid, roots));
  for (const std::uint32_t spared : {1u, static_cast<std::uint32_t>(::getpid())}) {
    if (freezer.path == "/" || freezer.path.contains("..") || is_inside(spared, freezer, roots)) {
      return fail(
          ErrorCode::denied,
          "process " + std::to_string(pid) + " cannot be frozen: its cgroup " + freezer.path + " is not its own",
          "start tenants in cgroups of their own (systemd-run --scope, a container)");
    }
  }
  std::ofstream file(roots.cgroup + freezer.file);
  if (!(file << freezer.word) || !file.flush())
    return fail(ErrorCode::denied, "cannot write " + roots.cgroup + freezer.file,
                "headgated needs rights over cgroups");
  return "was frozen with its cgroup " + freezer.path;
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
