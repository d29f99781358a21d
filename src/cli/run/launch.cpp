#include "cli/run/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/elf.hpp"
#include "base/run_cgroup.hpp"
#include "cli/term/output.hpp"
#include "load/child.hpp"

namespace headgate::cli {
namespace {

// Returns all signals except those that report our own faults and those that cannot be blocked.
sigset_t governed_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&set, fault);
  return set;
}

// Runs between fork and exec, so it makes only async-signal-safe calls.
[[noreturn]] void become_child(const char* path, char* const* arguments, char* const* environment, const sigset_t& mask,
                               bool binary, int report, int cgroup_door) {
  if (cgroup_door >= 0) [[maybe_unused]]
    const auto entered = ::write(cgroup_door, "0", 1);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve(path, arguments, environment);
  if (errno == ENOEXEC && !binary) {
    // A script without "#!": run it with the shell, as execvp does.
    std::size_t count = 0;
    while (arguments[count] != nullptr) ++count;
    if (count < 1000) {
      char* shell_arguments[1003] = {const_cast<char*>("sh"), const_cast<char*>(path)};
      for (std::size_t i = 1; i <= count; ++i) shell_arguments[i + 1] = arguments[i];
      ::execve("/bin/sh", shell_arguments, environment);
    }
  }
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

// Binaries, even broken ones or ones for other machines, are not handed to a shell.
bool is_binary(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(4, '\0');
  return fd && ::read(fd.get(), bytes.data(), bytes.size()) == 4 && is_elf(bytes);
}

bool has_terminal() {
  const UniqueFd terminal(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY));
  return static_cast<bool>(terminal);
}

class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}

  // Waits for the child to end and returns its wait status.
  int accompany(const sigset_t& signals) {
    for (;;) {
      if (look()) return status_;
      siginfo_t info{};
      const int number = ::sigwaitinfo(&signals, &info);
      if (number == SIGCHLD || number < 0) continue;
      pass_on(number, info);
    }
  }

 private:
  // Returns true if the child has ended. Mirrors its stops and continuations.
  bool look() {
    for (;;) {
      const pid_t got = ::waitpid(pid_, &status_, WNOHANG | WUNTRACED | WCONTINUED);
      if (got != pid_) return got < 0 && errno != EINTR;
      if (WIFEXITED(status_) || WIFSIGNALED(status_)) return true;
      if (WIFSTOPPED(status_) && has_terminal()) {
        ::kill(::getpid(), SIGSTOP);
        ::kill(pid_, SIGCONT);  // we were continued, so continue the child too
      }
    }
  }

  void pass_on(int number, const siginfo_t& info) const {
    // The kernel sent this to the whole foreground process group, so the child already has it.
    if (info.si_code > 0 && number != SIGCONT) return;
    ::kill(pid_, number);
  }

  pid_t pid_;
  int status_ = 0;
};

int exec_status(const std::string& path, int error) {
  say("cannot run '" + path + "': " + std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

namespace fs = std::filesystem;

bool has_line(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line == wanted) return true;
  return false;
}

// Returns the directory of our cgroup; empty if there is none.
std::string present_cgroup(const std::string& proc, const std::string& mounts) {
  std::error_code failed;
  const bool hybrid = fs::exists(mounts + "/unified/cgroup.procs", failed);
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::string path = mounts + (hybrid ? "/unified" : "") + line.substr(3);
    // The mount may show another cgroup namespace, where this path is a different cgroup. A program placed there would
    // escape the limits that apply to us.
    return has_line(path + "/cgroup.procs", std::to_string(::getpid())) ? path : std::string();
  }
  return {};
}

// Removes cgroups left by runs that were killed. rmdir fails if a process is still inside.
void remove_left(const std::string& parent) {
  std::error_code failed;
  for (fs::directory_iterator entry(parent, failed), end; !failed && entry != end; entry.increment(failed)) {
    const auto pid = static_cast<pid_t>(run_cgroup_pid(entry->path().filename().native()).value_or(0));
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) ::rmdir(entry->path().c_str());
  }
}

}  // namespace

Result<int> run_and_wait(const Launch& launch) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  UniqueFd reading(ends[0]), writing(ends[1]);
  const auto arguments = load::pointers(launch.arguments);
  const auto environment = load::pointers(launch.environment);
  const bool binary = is_binary(launch.path);
  ::signal(SIGCHLD, SIG_DFL);  // if inherited as ignored, the child's status would be lost
  const sigset_t signals = governed_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return fail_errno("cannot start a process", error);
  }
  if (pid == 0)
    become_child(launch.path.c_str(), arguments.data(), environment.data(), before, binary, writing.get(),
                 launch.cgroup_door);
  writing.reset();
  int error = 0;
  ssize_t got = 0;
  do got = ::read(reading.get(), &error, sizeof error);
  while (got < 0 && errno == EINTR);
  const int status = Child(pid).accompany(signals);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (got == sizeof error) return exec_status(launch.path, error);
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

std::unexpected<Error> become(const std::vector<std::string>& words) {
  ::execvp(words.front().c_str(), load::pointers(words).data());
  return fail_errno("cannot execute " + words.front(), errno);
}

OwnCgroup::OwnCgroup(const std::string& proc, const std::string& mounts) {
  const std::string parent = present_cgroup(proc, mounts);
  if (parent.empty()) return;
  remove_left(parent);
  path_ = parent + (parent.ends_with('/') ? "" : "/") + std::string(kRunCgroup) + std::to_string(::getpid());
  if (::mkdir(path_.c_str(), 0755) != 0 && errno != EEXIST) {
    path_.clear();
    return;
  }
  door_ = UniqueFd(::open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
}

OwnCgroup::~OwnCgroup() {
  door_.reset();
  if (!path_.empty()) ::rmdir(path_.c_str());
}

}  // namespace headgate::cli
