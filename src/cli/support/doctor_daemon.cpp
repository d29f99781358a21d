// The checks of `headgate doctor` that concern the node's daemon.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.hpp"
#include "base/split.hpp"
#include "base/user_name.hpp"
#include "base/version.hpp"
#include "base/whole_number.hpp"
#include "cli/run/engine_run.hpp"
#include "cli/share/daemon.hpp"
#include "cli/support/doctor.hpp"
#include "cli/view/names.hpp"
#include "cli/view/snapshot_source.hpp"
#include "guest/ledger/registration.hpp"
#include "http/client.hpp"
#include "http/codec.hpp"

namespace headgate::cli {
namespace {

using Findings = std::vector<Finding>;

bool is_member(gid_t gid) {
  if (::getegid() == gid) return true;
  std::vector<gid_t> all(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(all.size()), all.data());
  all.resize(static_cast<std::size_t>(std::max(count, 0)));
  return std::ranges::find(all, gid) != all.end();
}

// No daemon answers: looks for sockets that exist nevertheless.
void examine_silence(Findings& out) {
  const std::size_t before = out.size();
  for (const std::string& path : daemon_sockets()) {
    const int error = http::try_to_connect({.path = path});
    if (error == EACCES) {
      out.push_back({Health::warn, "headgated's socket " + path + " is there, and you may not open it",
                     "as an administrator: " + how_to_join(group_of_socket(path)) + ", then log in again"});
    } else if (error == ECONNREFUSED) {
      out.push_back({Health::fail,
                     "headgated's socket " + path + " exists, but no process listens: the daemon has ended",
                     "systemctl status headgated says why; running programs stay under their limits"});
    } else if (error == 0) {
      out.push_back({Health::fail, silence_at(path).message, silence_at(path).hint});
    }
  }
  if (out.size() == before) {
    out.push_back({Health::ok,
                   "no headgated runs here: shares are this user's own, and several on one card approximate",
                   "systemctl start headgated, or as yourself: headgated"});
  }
}

void examine_socket(const http::Endpoint& daemon, Findings& out) {
  struct stat facts{};
  if (daemon.path.empty() || ::stat(daemon.path.c_str(), &facts) != 0) return;
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", facts.st_mode & 0777);
  const std::string group = group_name(facts.st_gid);
  const bool administers = ::geteuid() == 0 || ::geteuid() == facts.st_uid || is_member(facts.st_gid);
  out.push_back({Health::ok,
                 "its socket has mode " + std::string(mode) + ", owner " + user_name(facts.st_uid) + ", group " +
                     group + "; you " + (administers ? "administer it" : "see and change your own shares only"),
                 administers ? "" : how_to_join(facts.st_gid)});
}

void examine_readiness(const http::Endpoint& daemon, Findings& out) {
  const auto ready = ask(daemon, "GET", "/readyz");
  if (!ready) out.push_back({Health::fail, "headgated is not ready: " + ready.error().message, ready.error().hint});
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The audit reads users, programs and containers from /proc; processes hidden there appear only as numbers.
void examine_view(const http::Endpoint& daemon, Findings& out) {
  const std::string own = "/proc/" + std::to_string(pid_of(daemon));
  const std::string mounts = text_of(own + "/mountinfo");
  const auto hiding = proc_hiding(mounts.empty() ? text_of("/proc/self/mountinfo") : mounts);
  if (!hiding) return;
  const std::string status = text_of(own + "/status");
  if (sees_through(*hiding, status)) {
    out.push_back({Health::ok, "/proc is mounted with " + hiding->option + ", and headgated sees everybody there", ""});
  } else if (status.empty()) {
    out.push_back(
        {Health::warn,
         "/proc is mounted with " + hiding->option + ": whether headgated sees everybody there cannot be told",
         "ask again as root"});
  } else {
    out.push_back({Health::warn,
                   "/proc is mounted with " + hiding->option +
                       ", and headgated sees only its own user's processes: the audit "
                       "names others by number, and exempts none of them",
                   "leave it CAP_SYS_PTRACE (its unit does), or mount /proc with gid= of a group that it is in"});
  }
}

// Programs enter through the share's socket; without it the fail policy refuses them the GPU or runs them unenforced.
void examine_share(const http::Endpoint& daemon, const snapshot::Snapshot& now, const snapshot::Share& share,
                   Findings& out) {
  for (const auto& device : share.devices) {
    if (is_gpu_of(now, device.uuid)) continue;
    out.push_back({Health::fail,
                   "share " + share.name + " is for " + device.uuid +
                       ", which is not a GPU of this node, or does not answer: its programs find no GPU",
                   "see nvidia-smi; where the card does not come back: headgate share rm " + share.name +
                       ", and make it again on one of those in 'headgate status'"});
  }
  if (!share.cdi_file.empty() && share.problem.empty())
    if (const std::string trouble = cdi_trouble(share); !trouble.empty())
      out.push_back({Health::warn, "share " + share.name + " can be given to no container: " + trouble,
                     "headgate share show " + share.name + ", headgate cdi list"});
  if (!share.problem.empty()) {
    out.push_back({Health::fail, "share " + share.name + " is broken: " + share.problem,
                   "when its programs have ended: headgate share rm " + share.name + ", and make it again"});
    return;
  }
  const auto entry = ask(daemon, "GET", "/v1/shares/" + http::escape(share.name) + "/entry");
  if (!entry) return;  // made without the daemon, or not ours to enter
  const auto json = parse_json(*entry);
  if (!json.is_object()) return;
  const std::string socket = json.value("directory", "") + "/" + ledger::kTenantSocket;
  struct stat facts{};
  if (::stat(socket.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode)) return;
  out.push_back({Health::fail, "programs cannot enter the share " + share.name + ": there is no socket " + socket,
                 "it is tried again each second, and headgated's log says what keeps it (running programs go on)"});
}

void examine_processes(const snapshot::Snapshot& now, Findings& out) {
  std::uint32_t named = 0;
  for (const auto& process : now.processes) {
    if (process.finding.empty()) continue;
    if (process.share.empty()) ++named;
    out.push_back({Health::warn, process.finding,
                   process.share.empty() ? "start it with: headgate run --share NAME -- COMMAND"
                                         : "see 'headgate events', and audit.policy in the configuration"});
  }
  if (now.node.unattended_processes <= named) return;
  const std::uint32_t others = now.node.unattended_processes - named;
  out.push_back({Health::warn,
                 std::to_string(others) + (named > 0 ? " more" : "") +
                     (others == 1 ? " process uses" : " processes use") +
                     " a GPU outside every share: no limit holds there",
                 "'headgate ps' names them"});
}

std::optional<ProcHiding> hiding_from(const std::string& options) {
  ProcHiding hiding;
  for (const std::string& option : split(options, ',')) {
    const std::string value = option.substr(option.find('=') + 1);
    // A number before Linux 5.8, a name since.
    if (option.starts_with("hidepid=") && value != "0" && value != "off") {
      hiding.option = option;
      hiding.ptraceable = value == "4" || value == "ptraceable";
    }
    if (option.starts_with("gid=")) hiding.gid = whole_number<gid_t>(value);
  }
  return hiding.option.empty() ? std::nullopt : std::optional(hiding);
}

}  // namespace

std::optional<snapshot::Snapshot> examine_daemon(std::vector<Finding>& out) {
  const auto found = find_daemon();
  if (!found || !*found) {
    if (found || found.error().code == ErrorCode::denied) examine_silence(out);
    else out.push_back({Health::fail, found.error().message, found.error().hint});
    return std::nullopt;
  }
  const http::Endpoint& daemon = **found;
  const auto now = daemon_source(daemon)->look();
  if (!now) {
    out.push_back({Health::fail, "headgated at " + daemon.text() + ": " + now.error().message, now.error().hint});
    return std::nullopt;
  }
  const auto count = [](std::uint32_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : what.ends_with("s") ? "es" : "s");
  };
  out.push_back({Health::ok,
                 "headgated " + now->node.version + " answers at " + daemon.text() +
                     (now->node.simulated ? " (SIMULATED)" : "") + ": " + count(now->node.shares, "share") + ", " +
                     count(now->node.processes, "process"),
                 ""});
  if (now->node.version != version_text()) {
    const pid_t pid = pid_of(daemon);
    out.push_back({Health::warn, "the command is " + version_text() + ", the daemon " + now->node.version,
                   ::access("/run/systemd/system", F_OK) == 0
                       ? "systemctl restart headgated (running programs go on)"
                       : "end that daemon and start the new one: kill " + (pid == 0 ? "PID" : std::to_string(pid)) +
                             "; headgated (running programs go on)"});
  }
  examine_socket(daemon, out);
  examine_readiness(daemon, out);
  examine_view(daemon, out);
  if (now->node.nvml_released)
    out.push_back(
        {Health::warn,
         "headgated does not see the driver ('headgate gpu release', or it does not answer): figures of GPUs are old",
         "it takes the driver again by itself, after a release within a minute; else see nvidia-smi"});
  for (const auto& share : now->shares) examine_share(daemon, *now, share, out);
  examine_processes(*now, out);
  return *now;
}

std::optional<ProcHiding> proc_hiding(std::string_view mountinfo) {
  std::optional<ProcHiding> uppermost;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    auto words = split(line, ' ');
    std::erase(words, "");
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words[4] != "/proc" || words.end() - dash < 4 || dash[1] != "proc") continue;
    uppermost = hiding_from(dash[3]);
  }
  return uppermost;
}

bool sees_through(const ProcHiding& hiding, std::string_view status) {
  constexpr int kSysPtrace = 19;  // CAP_SYS_PTRACE
  std::istringstream lines{std::string(status)};
  for (std::string line; std::getline(lines, line);) {
    std::ranges::replace(line, '\t', ' ');
    auto words = split(line, ' ');
    std::erase(words, "");
    if (words.size() < 2) continue;
    if (words[0] == "CapEff:" && (whole_number<unsigned long long>(words[1], 16).value_or(0) >> kSysPtrace & 1) != 0)
      return true;
    if (hiding.gid && !hiding.ptraceable && (words[0] == "Groups:" || words[0] == "Gid:") &&
        std::any_of(words.begin() + 1, words.end(),
                    [&](const auto& word) { return whole_number<gid_t>(word) == hiding.gid; }))
      return true;
  }
  return false;
}

}  // namespace headgate::cli
