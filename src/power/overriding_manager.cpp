#include "power/overriding_manager.hpp"

#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/unique_fd.hpp"
#include "base/utf8.hpp"

extern char** environ;

namespace headgate::power {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxOutput = 64 << 10;  // bytes kept; the rest is read and dropped
constexpr std::size_t kMaxShown = 300;
constexpr milliseconds kGrace{1000};  // for the end of the output, once the command has ended

struct Started {
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

Result<Started> start(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("making a pipe for " + words[0], errno);
  UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  SpawnActions actions;
  ::posix_spawn_file_actions_addopen(&actions.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions.files, writing.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions.files, writing.get(), STDERR_FILENO);
  // The daemon blocks signals; what it starts must not.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&actions.attributes, &none);
  ::posix_spawnattr_setpgroup(&actions.attributes, 0);
  ::posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Started started;
  if (const int error =
          ::posix_spawnp(&started.pid, argv[0], &actions.files, &actions.attributes, argv.data(), environ);
      error != 0)
    return fail_errno("starting " + words[0], error);
  started.output = std::move(reading);
  return started;
}

// What is there now; false at the end of the output.
bool drain(int fd, std::string& output) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    const std::size_t room = kMaxOutput - std::min(kMaxOutput, output.size());
    output.append(bytes.data(), std::min<std::size_t>(room, static_cast<std::size_t>(count)));
  }
}

int milliseconds_until(Clock::time_point end) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<milliseconds>(end - Clock::now()).count()));
}

// Reads until the command has ended and its output too; the latter for kGrace at most, for something that it left
// behind may hold the pipe. False: the time was over.
bool follow(const Started& started, int pidfd, Clock::time_point deadline, std::string& output) {
  bool open = true, ended = false;
  while (open || !ended) {
    pollfd polled[2] = {{ended ? -1 : pidfd, POLLIN, 0}, {open ? started.output.get() : -1, POLLIN, 0}};
    const int ready = ::poll(polled, 2, milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) return ended;
    if (ready == 0) return ended;
    if (polled[1].revents != 0) open = drain(started.output.get(), output);
    if (polled[0].revents != 0 && !std::exchange(ended, true)) deadline = Clock::now() + kGrace;
  }
  return true;
}

bool matches(const std::string& pattern, const std::string& output) {
  regex_t compiled;
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return true;
  const bool found = ::regexec(&compiled, output.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

std::string printed(const std::string& output) {
  const std::string text = printable(output, kMaxShown);
  return text.empty() ? "" : ": " + text;
}

class OverridingManager final : public GpuManager {
 public:
  OverridingManager(std::unique_ptr<GpuManager> manager, std::uint32_t gpu, const config::CommandOverrides& overrides)
      : manager_(std::move(manager)), gpu_(gpu), overrides_(overrides) {}

  [[nodiscard]] const GpuIdentity& identity() const override { return manager_->identity(); }

  Result<void> set_persistence_mode(bool enabled) override {
    return write({.operation = Operation::set_persistence_mode, .enabled = enabled});
  }
  Result<void> set_power_limit(std::uint32_t limit_mw) override {
    return write({.operation = Operation::set_power_limit, .power_limit_mw = limit_mw});
  }
  Result<void> set_gpu_locked_clocks(ClockRange clocks) override {
    return write({.operation = Operation::set_gpu_locked_clocks, .clocks = clocks});
  }
  Result<void> set_mem_locked_clocks(ClockRange clocks) override {
    return write({.operation = Operation::set_mem_locked_clocks, .clocks = clocks});
  }
  Result<void> reset_gpu_locked_clocks() override { return write({.operation = Operation::reset_gpu_locked_clocks}); }
  Result<void> reset_mem_locked_clocks() override { return write({.operation = Operation::reset_mem_locked_clocks}); }
  Result<void> reset_locked_clocks() override {
    // Without commands for both at once, each domain has its own.
    if (!overrides_.contains(name_of(Operation::reset_locked_clocks))) return GpuManager::reset_locked_clocks();
    return write({.operation = Operation::reset_locked_clocks});
  }

  Result<void> set_compute_mode(std::uint32_t mode) override { return manager_->set_compute_mode(mode); }

  Result<std::uint32_t> instant_power_mw() override { return manager_->instant_power_mw(); }
  Result<std::uint64_t> total_energy_mj() override { return manager_->total_energy_mj(); }
  Result<std::uint32_t> power_limit_mw() override { return manager_->power_limit_mw(); }
  Result<PowerRange> power_limit_range() override { return manager_->power_limit_range(); }
  Result<bool> persistence_mode() override { return manager_->persistence_mode(); }
  Result<std::uint32_t> compute_mode() override { return manager_->compute_mode(); }

 private:
  Result<void> write(const Command& command) {
    const auto found = overrides_.find(name_of(command.operation));
    if (found == overrides_.end()) {
      const auto done = perform(command, *manager_);
      return done ? Result<void>{} : std::unexpected(done.error());
    }
    for (const auto& words : found->second.commands) {
      if (auto run = run_command(filled(words, gpu_, command), found->second.error_pattern, found->second.timeout);
          !run)
        return run;
    }
    return {};
  }

  const std::unique_ptr<GpuManager> manager_;
  const std::uint32_t gpu_;
  const config::CommandOverrides overrides_;
};

}  // namespace

Result<void> run_command(const std::vector<std::string>& words, const std::optional<std::string>& error_pattern,
                         milliseconds timeout) {
  const Started started = TRY(start(words));
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0)));
  std::string output;
  const bool ended = follow(started, pidfd.get(), Clock::now() + timeout, output);
  if (!ended) ::kill(-started.pid, SIGKILL);
  int status = 0;
  while (::waitpid(started.pid, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string name = "command '" + printable(words[0]) + "'";
  if (!ended)
    return fail(ErrorCode::failed,
                name + " was killed after " + std::to_string(timeout.count()) + " ms" + printed(output));
  if (WIFSIGNALED(status))
    return fail(ErrorCode::failed, name + " ended by signal " + std::to_string(WTERMSIG(status)) + printed(output));
  if (WEXITSTATUS(status) != 0)
    return fail(ErrorCode::failed,
                name + " ended with status " + std::to_string(WEXITSTATUS(status)) + printed(output));
  if (error_pattern && matches(*error_pattern, output))
    return fail(ErrorCode::failed, name + " printed what its error_pattern matches" + printed(output));
  return {};
}

std::vector<std::string> filled(const std::vector<std::string>& words, std::uint32_t gpu, const Command& command) {
  std::string watts = watts_text(command.power_limit_mw);
  watts.resize(watts.size() - 2);  // without the unit
  const std::pair<std::string_view, std::string> values[] = {
      {"{gpu_id}", std::to_string(gpu)},
      {"{enabled}", command.enabled ? "1" : "0"},
      {"{power_limit_mw}", std::to_string(command.power_limit_mw)},
      {"{power_limit_w}", watts},
      {"{min_clock_mhz}", std::to_string(command.clocks.min_mhz)},
      {"{max_clock_mhz}", std::to_string(command.clocks.max_mhz)},
  };
  std::vector<std::string> all = words;
  for (std::string& word : all) {
    for (const auto& [name, value] : values) {
      for (auto at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size()))
        word.replace(at, name.size(), value);
    }
  }
  return all;
}

std::unique_ptr<GpuManager> overriding_manager(std::unique_ptr<GpuManager> manager, std::uint32_t gpu,
                                               const config::CommandOverrides& overrides) {
  if (overrides.empty()) return manager;
  return std::make_unique<OverridingManager>(std::move(manager), gpu, overrides);
}

}  // namespace headgate::power
