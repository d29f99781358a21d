#include "load/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

extern char** environ;

namespace headgate::load {

namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool taken_out(std::string_view name, const ChildSpec& spec) {
  for (const auto& [set, value] : spec.environment)
    if (name == set) return true;
  for (const std::string_view pattern : spec.without)
    if (pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern) return true;
  return false;
}

std::vector<std::string> environment_of(const ChildSpec& spec) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!taken_out(name_of(*entry), spec)) entries.emplace_back(*entry);
  for (const auto& [name, value] : spec.environment) entries.push_back(name + "=" + value);
  return entries;
}

// Returns 0 or an errno. A program that cannot be executed says why on `err` and ends with 127, as a shell's.
int start_child(const ChildSpec& spec, int out, int err, pid_t& pid) {
  const std::vector<std::string> environment = environment_of(spec);
  const std::vector<char*> argv = pointers(spec.argv), envp = pointers(environment);
  const pid_t parent = ::getpid();
  pid = ::fork();
  if (pid < 0) return errno;
  // A separate process group: Ctrl-C reaches only us, and we end the children in order. Both sides call it, so that
  // signals to the group work in either order.
  ::setpgid(pid, pid);
  if (pid > 0) return 0;
  // Between fork and exec: only system calls, because another thread may hold a lock.
  if (spec.ends_with_us) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (spec.ends_with_us && ::getppid() != parent) ::_exit(127);
  ::dup2(::open("/dev/null", O_RDONLY), 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  ::execvpe(argv[0], argv.data(), envp.data());
  const char* const why = ::strerrordesc_np(errno);
  if (why != nullptr) (void)!::write(2, why, std::strlen(why));
  ::_exit(127);
}

void take_from(int fd, std::string& into) {
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return;
    into.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

Result<Child> Child::start(const ChildSpec& spec) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  UniqueFd out_read(out[0]), out_write(out[1]);
  if (::pipe2(err, O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  UniqueFd err_read(err[0]), err_write(err[1]);
  ::fcntl(out[0], F_SETFL, O_NONBLOCK);
  ::fcntl(err[0], F_SETFL, O_NONBLOCK);

  Child child;
  if (const int error = start_child(spec, out[1], err[1], child.pid_); error != 0)
    return fail_errno("cannot start " + spec.argv[0], error);
  child.out_ = std::move(out_read);
  child.err_ = std::move(err_read);
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      end_(std::move(other.end_)) {}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

void Child::end(std::chrono::milliseconds patience) {
  signal(SIGTERM);
  (void)wait(std::chrono::steady_clock::now() + patience);
}

void Child::take_in() {
  take_from(out_.get(), end_.out);
  take_from(err_.get(), end_.err);
}

bool Child::running() {
  if (pid_ <= 0) return false;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  take_in();
  if (ended != pid_) return true;
  pid_ = -1;
  end_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

ChildEnd Child::wait(std::chrono::steady_clock::time_point deadline) {
  while (running()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      end_.timed_out = true;
      signal(SIGKILL);
    }
    // Wakes on output or a closed pipe; the timeout covers a child that closed both and lives on.
    pollfd pipes[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
    ::poll(pipes, 2, 20);
    if ((pipes[0].revents | pipes[1].revents) & POLLHUP) ::usleep(1000);
  }
  return end_;
}

Result<ChildEnd> run_child(const ChildSpec& spec, std::chrono::milliseconds at_most) {
  Child child = TRY(Child::start(spec));
  ChildEnd end = child.wait(std::chrono::steady_clock::now() + at_most);
  const std::string said = end.err.empty() ? "" : ": " + end.err.substr(0, end.err.find_last_not_of('\n') + 1);
  if (end.timed_out)
    return fail(ErrorCode::failed,
                spec.argv[0] + " did not end within " + std::to_string(at_most.count()) + " ms" + said);
  if (end.status != 0)
    return fail(ErrorCode::failed, spec.argv[0] + " ended with status " + std::to_string(end.status) + said);
  return end;
}

}  // namespace headgate::load
