// The control daemon of one group: found by its socket, started, stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "mps/tool.hpp"

namespace headgate::mps {

// A process that is noted on disk: its number may be another's after it has ended.
struct ProcessMark {
  std::uint32_t pid = 0, start_time = 0;  // as of identity::Process

  friend bool operator==(const ProcessMark&, const ProcessMark&) = default;
};
// The process of that number as it is now; nothing where there is none.
[[nodiscard]] std::optional<ProcessMark> mark_of(std::uint32_t pid, const std::string& proc);
// A pidfd of exactly that process; empty where it has ended.
[[nodiscard]] UniqueFd open_process(const ProcessMark& mark, const std::string& proc);

struct RunningDaemon {
  ProcessMark mark;
  std::uint32_t uid = 0;
  UniqueFd pidfd;
};
// The process that listens on the `control` socket of a pipe directory, by its peer credentials: release 535 writes no
// pid file. Nothing where no process listens there. Never waits.
[[nodiscard]] std::optional<RunningDaemon> daemon_at(const std::string& pipe, const std::string& proc);

// Makes the directories, removes what a former daemon left, starts the daemon and waits until it listens. Errors: of
// make_places() and Tool::start(); failed, where it does not listen in time.
[[nodiscard]] Result<RunningDaemon> start_daemon(const Tool& tool, const std::string& base, const std::string& proc);

// Asks the daemon to quit, and kills it and its servers where it has not ended in time. Returns whether it had to be
// killed. Errors: failed, where it lives all the same.
[[nodiscard]] Result<bool> stop_daemon(const Tool& tool, const RunningDaemon& daemon, const std::string& proc);
// Kills the daemon at once. Its servers go on for the clients that they have, or are killed too. Errors: as of
// stop_daemon().
enum class ItsServers { kill, leave };
[[nodiscard]] Result<void> kill_daemon(const RunningDaemon& daemon, ItsServers servers, const std::string& proc);

}  // namespace headgate::mps
