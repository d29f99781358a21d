#include "base/bounded_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"

extern char** environ;

namespace headgate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxOutput = 64 << 10;  // bytes kept

struct StartedCommand {
  pid_t pid = -1;
  UniqueFd output;
};

struct SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnActions() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

// Returns a file in memory with the whole input, so the program may read it at any time or never.
Result<UniqueFd> input_of(const BoundedCommand& command) {
  UniqueFd input(::memfd_create("input", MFD_CLOEXEC));
  int error = input ? write_all(input.get(), command.input) : errno;
  if (error == 0 && ::lseek(input.get(), 0, SEEK_SET) != 0) error = errno;
  if (error != 0) return fail_errno("keeping the input of " + command.words[0], error);
  return input;
}

Result<StartedCommand> start_command(const BoundedCommand& command) {
  const UniqueFd input = TRY(input_of(command));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("making a pipe for " + command.words[0], errno);
  UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  SpawnActions actions;
  ::posix_spawn_file_actions_adddup2(&actions.files, input.get(), STDIN_FILENO);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    if (!command.shows_output) ::posix_spawn_file_actions_adddup2(&actions.files, writing.get(), stream);
  // The daemon blocks signals; its child must not inherit that.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&actions.attributes, &none);
  ::posix_spawnattr_setpgroup(&actions.attributes, 0);
  ::posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  auto argv = pointers(command.words);
  auto variables = command.environment ? pointers(*command.environment) : std::vector<char*>{};
  StartedCommand started;
  if (const int error = ::posix_spawnp(&started.pid, argv[0], &actions.files, &actions.attributes, argv.data(),
                                       command.environment ? variables.data() : environ);
      error != 0)
    return fail_errno("starting " + command.words[0], error);
  started.output = std::move(reading);
  return started;
}

// Reads what is available, or part of it: a program may write faster than we read. Returns false at the end of output.
bool drain_output(int fd, std::string& output) {
  std::array<char, 4096> bytes;
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    const std::size_t room = kMaxOutput - std::min(kMaxOutput, output.size());
    output.append(bytes.data(), std::min<std::size_t>(room, static_cast<std::size_t>(count)));
  }
  return true;
}

int milliseconds_until(Clock::time_point end) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<milliseconds>(end - Clock::now()).count()));
}

// Reads until the program and its output have ended. The output gets at most `grace`, because a background process may
// hold the pipe. Returns false on timeout.
bool follow_command(const StartedCommand& started, int pidfd, const BoundedCommand& command, std::string& output) {
  Clock::time_point deadline = Clock::now() + command.timeout;
  bool open = true, ended = false;
  while (open || !ended) {
    pollfd polled[2] = {{ended ? -1 : pidfd, POLLIN, 0}, {open ? started.output.get() : -1, POLLIN, 0}};
    const int ready = ::poll(polled, 2, milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) return ended;
    if (ready == 0) return ended;
    if (polled[1].revents != 0) open = drain_output(started.output.get(), output);
    if (polled[0].revents != 0 && !std::exchange(ended, true)) deadline = Clock::now() + command.grace;
    // Endless output keeps the pipe readable, so check the deadline here too.
    if (Clock::now() >= deadline && !(ended && !open)) return ended;
  }
  return true;
}

}  // namespace

Result<CommandOutcome> run_bounded(const BoundedCommand& command) {
  const StartedCommand started = TRY(start_command(command));
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0)));
  CommandOutcome outcome;
  outcome.timed_out = !follow_command(started, pidfd.get(), command, outcome.output);
  if (outcome.timed_out) ::kill(-started.pid, SIGKILL);
  while (::waitpid(started.pid, &outcome.status, 0) < 0 && errno == EINTR) {
  }
  return outcome;
}

std::string CommandOutcome::ending() const {
  return WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status))
                             : "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace headgate
