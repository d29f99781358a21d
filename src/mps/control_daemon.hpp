// Finds (by its socket), starts and stops the control daemon of one group.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "mps/tool.hpp"

namespace headgate::mps {

// Identifies a process across restarts: its PID may be reused after it has ended.
struct ProcessMark {
  std::uint32_t pid = 0, start_time = 0;  // as in identity::Process

  friend bool operator==(const ProcessMark&, const ProcessMark&) = default;
};
// Returns the process that has this PID now; nothing if there is none.
[[nodiscard]] std::optional<ProcessMark> mark_of(std::uint32_t pid, const std::string& proc);
// Returns a pidfd of exactly that process; empty if it has ended.
[[nodiscard]] UniqueFd open_process(const ProcessMark& mark, const std::string& proc);

struct RunningDaemon {
  ProcessMark mark;
  std::uint32_t uid = 0;
  UniqueFd pidfd;
};
// Returns the process that listens on a pipe directory's `control` socket, by peer credentials, because release 535
// writes no pid file. Nothing if no process listens. Never blocks.
[[nodiscard]] std::optional<RunningDaemon> daemon_at(const std::string& pipe, const std::string& proc);

// Returns the processes that start_daemon() began for these directories, listening or not: launchers and daemons. The
// kernel keeps the environment and the words that each was started with.
[[nodiscard]] std::vector<ProcessMark> started_for(const Places& places, const std::string& proc);

// Creates the directories, removes a former daemon's files, starts the daemon and waits until it listens. Errors: those
// of make_places() and Tool::start(); failed if it does not listen in time. After an error none of its processes lives.
[[nodiscard]] Result<RunningDaemon> start_daemon(const Tool& tool, ServerUsers users, const std::string& base,
                                                 const std::string& proc);

enum class ItsServers { kill, leave };  // with a daemon that is killed; else they keep serving their present clients

// Asks the daemon to quit, and kills it and its servers if it does not end in time. Returns true if it was killed.
// Errors: failed if it still lives.
[[nodiscard]] Result<bool> stop_daemon(const Tool& tool, const RunningDaemon& daemon, const std::string& proc);
// Kills the daemon at once. Errors: those of stop_daemon().
[[nodiscard]] Result<void> kill_daemon(const RunningDaemon& daemon, ItsServers servers, const std::string& proc);
// Kills all of started_for(). Errors: those of stop_daemon().
[[nodiscard]] Result<void> kill_started(const Places& places, ItsServers servers, const std::string& proc);

}  // namespace headgate::mps
