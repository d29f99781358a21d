#include "mps/control_daemon.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <thread>
#include <vector>

#include "identity/peer.hpp"
#include "identity/process.hpp"

namespace headgate::mps {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAfterKill{1'000};

bool ends_within(int pidfd, milliseconds limit) {
  const auto until = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd polled{pidfd, POLLIN, 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

void kill_process(int pidfd) { ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0u); }

// Returns a control daemon's children, which include its servers.
std::vector<ProcessMark> children_of(std::uint32_t pid, const std::string& proc) {
  std::vector<ProcessMark> all;
  for (const identity::Process& process : identity::list_processes(proc).all)
    if (process.parent == pid && !process.ended) all.push_back({process.pid, process.start_time});
  return all;
}

std::unexpected<Error> cannot_be_killed(const ProcessMark& mark) {
  return fail(ErrorCode::failed, "MPS stop: process " + std::to_string(mark.pid) + " cannot be killed");
}

// `strings`: as the kernel shows words and environments, each ends with a zero byte.
bool has_string(std::string_view strings, const std::string& string) {
  const std::string ended = string + '\0';
  return strings.starts_with(ended) || strings.contains('\0' + ended);
}

// Tenants have the same pipe directory, but not this log directory; the tool has both in each call, but not -d.
bool was_started_for(const Places& places, std::uint32_t pid, const std::string& proc) {
  const std::string folder = proc + "/" + std::to_string(pid);
  const auto variables = identity::read_file(folder + "/environ"), words = identity::read_file(folder + "/cmdline");
  return variables && words && has_string(*variables, "CUDA_MPS_PIPE_DIRECTORY=" + places.pipe) &&
         has_string(*variables, "CUDA_MPS_LOG_DIRECTORY=" + places.log) && has_string(*words, "-d");
}

}  // namespace

std::optional<ProcessMark> mark_of(std::uint32_t pid, const std::string& proc) {
  const auto process = identity::read_process(proc, pid);
  if (!process || process->ended) return std::nullopt;
  return ProcessMark{process->pid, process->start_time};
}

UniqueFd open_process(const ProcessMark& mark, const std::string& proc) {
  if (mark.pid == 0) return {};
  auto pidfd = identity::pidfd_of({.pid = mark.pid, .start_time = mark.start_time}, proc);
  if (!pidfd || identity::has_ended(pidfd->get())) return {};
  return std::move(*pidfd);
}

std::optional<RunningDaemon> daemon_at(const std::string& pipe, const std::string& proc) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = pipe + "/control";
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::nullopt;
  auto peer = identity::peer_of(socket.get(), proc);
  if (!peer) return std::nullopt;
  return RunningDaemon{{peer->process.pid, peer->process.start_time}, peer->uid, std::move(peer->pidfd)};
}

Result<RunningDaemon> start_daemon(const Tool& tool, ServerUsers users, const std::string& base,
                                   const std::string& proc) {
  if (auto made = make_places(base, tool.places()); !made) return std::unexpected(made.error());
  remove_stale(tool.places());
  const auto failed = [&](Error why) -> std::unexpected<Error> {
    if (const auto killed = kill_started(tool.places(), ItsServers::kill, proc); !killed)
      why.message += "; " + killed.error().message;
    return std::unexpected(std::move(why));
  };
  // A launcher that hangs may have started it. One that is not there, or that lacks the mode, starts nothing.
  if (auto started = tool.start(users); !started)
    return started.error().code == ErrorCode::unsupported ? std::unexpected(started.error()) : failed(started.error());
  const auto until = Clock::now() + tool.limits().ready;
  for (;;) {
    if (auto daemon = daemon_at(tool.places().pipe, proc); daemon && daemon->uid == ::geteuid())
      return std::move(*daemon);
    if (Clock::now() >= until)
      return failed({ErrorCode::failed,
                     "MPS start: no daemon answers at " + tool.places().pipe + " within " +
                         std::to_string(tool.limits().ready.count()) + " ms",
                     "its own words: " + tool.places().log + "/control.log"});
    std::this_thread::sleep_for(milliseconds(2));
  }
}

Result<bool> stop_daemon(const Tool& tool, const RunningDaemon& daemon, const std::string& proc) {
  // The daemon waits for its clients before it ends.
  const auto asked = tool.quit();
  if (asked && ends_within(daemon.pidfd.get(), tool.limits().quit)) {
    remove_stale(tool.places());
    return false;
  }
  if (auto killed = kill_daemon(daemon, ItsServers::kill, proc); !killed) return std::unexpected(killed.error());
  remove_stale(tool.places());
  return true;
}

Result<void> kill_daemon(const RunningDaemon& daemon, ItsServers its_servers, const std::string& proc) {
  const auto servers =
      its_servers == ItsServers::kill ? children_of(daemon.mark.pid, proc) : std::vector<ProcessMark>{};
  kill_process(daemon.pidfd.get());
  for (const ProcessMark& server : servers)
    if (const UniqueFd pidfd = open_process(server, proc)) kill_process(pidfd.get());
  if (ends_within(daemon.pidfd.get(), kAfterKill)) return {};
  return cannot_be_killed(daemon.mark);
}

std::vector<ProcessMark> started_for(const Places& places, const std::string& proc) {
  std::vector<ProcessMark> all;
  const auto self = identity::read_process(proc, static_cast<std::uint32_t>(::getpid()));
  if (!self) return all;
  // A container's processes may have the words too, but not our pid namespace.
  for (const identity::Process& process : identity::list_processes(proc).all)
    if (process.uid == ::geteuid() && process.pidns_inode == self->pidns_inode && !process.ended &&
        was_started_for(places, process.pid, proc))
      all.push_back({process.pid, process.start_time});
  return all;
}

// One of them may fork and end while /proc is read, so two readings in a row must show none.
Result<void> kill_started(const Places& places, ItsServers servers, const std::string& proc) {
  const auto until = Clock::now() + kAfterKill;
  for (int none = 0; none < 2;) {
    std::vector<ProcessMark> found = started_for(places, proc);
    none = found.empty() ? none + 1 : 0;
    for (std::size_t i = 0, daemons = found.size(); servers == ItsServers::kill && i < daemons; ++i)
      std::ranges::copy(children_of(found[i].pid, proc), std::back_inserter(found));
    for (const ProcessMark& mark : found) {
      const UniqueFd pidfd = open_process(mark, proc);
      if (!pidfd) continue;
      kill_process(pidfd.get());
      if (!ends_within(pidfd.get(), kAfterKill)) return cannot_be_killed(mark);
    }
    if (none == 0 && Clock::now() > until)
      return fail(ErrorCode::failed, "MPS stop: processes of " + places.directory + " start again and again");
  }
  return {};
}

}  // namespace headgate::mps
