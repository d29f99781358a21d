// Whether a process may still store into a page: by pidfd if possible, else by /proc and kill().
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

#include "guest/bare/clock.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/ledger/slot.hpp"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434  // Linux 5.3; one number on every architecture
#endif

namespace headgate::ledger {
namespace {

struct ProcessStat {
  bool known = false;
  bool lacked = false;  // no descriptor or memory to read it with
  char state = '?';
  std::uint64_t threads = 0;
  std::uint32_t start_time = 0;  // as in Identity
};

// Parses fields 3 (state), 20 (threads) and 22 (start time) of a stat file in /proc. The name in field 2 may contain
// anything, so fields are counted from the last ')'.
ProcessStat parse_stat(const char* text, std::size_t length) {
  ProcessStat out;
  std::size_t at = length;
  while (at > 0 && text[at - 1] != ')') --at;
  if (at == 0) return out;
  std::uint32_t field = 2;
  while (at < length) {
    while (at < length && text[at] == ' ') ++at;
    ++field;
    std::uint64_t number = 0;
    if (field == 3 && at < length) out.state = text[at];
    for (; at < length && text[at] != ' '; ++at)
      if (text[at] >= '0' && text[at] <= '9') number = number * 10 + static_cast<std::uint64_t>(text[at] - '0');
    if (field == 20) out.threads = number;
    if (field == 22) {
      out.start_time = bare::host_start_time(number);
      out.known = true;
      break;
    }
  }
  return out;
}

// Makes "/proc/PID/task/PID/stat". For /proc/PID/stat the kernel sums the times of all threads, which takes 1 ms with
// ten thousand threads.
void stat_path(std::uint32_t pid, char (&path)[40]) {
  bare::Text(path).add("/proc/").add_decimal(pid).add("/task/").add_decimal(pid).add("/stat");
}

bool lacks_something(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

ProcessStat read_stat(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {.lacked = lacks_something(errno)};
  char text[512];
  const ssize_t length = ::read(fd, text, sizeof text);
  ::close(fd);
  return length > 0 ? parse_stat(text, static_cast<std::size_t>(length)) : ProcessStat{};
}

// Reads the digits as a number, and skips the rest.
std::uint64_t digits_in(const char* text, ssize_t length) {
  std::uint64_t number = 0;
  for (ssize_t i = 0; i < length; ++i)
    if (text[i] >= '0' && text[i] <= '9') number = number * 10 + static_cast<std::uint64_t>(text[i] - '0');
  return number;
}

// A program that only unshared its pid namespace still has the outer /proc: its numbers belong to other processes.
bool proc_shows_our_namespace() {
  char link[16];
  const ssize_t length = ::readlink("/proc/self", link, sizeof link);
  return length > 0 && digits_in(link, length) == static_cast<std::uint64_t>(::getpid());
}

// Without /proc, a pidfd of this process gives the namespace (Linux 6.11 or later).
std::uint32_t pid_namespace_by_pidfd() {
  const long self = ::syscall(SYS_pidfd_open, ::getpid(), 0u);
  if (self < 0) return 0;
  const int space = ::ioctl(static_cast<int>(self), 0xff05 /* PIDFD_GET_PID_NAMESPACE, linux/pidfd.h */, 0);
  ::close(static_cast<int>(self));
  if (space < 0) return 0;
  struct stat status{};
  const bool known = ::syscall(SYS_fstat, space, &status) == 0;
  ::close(space);
  return known ? static_cast<std::uint32_t>(status.st_ino) : 0;
}

std::uint32_t pid_namespace() {
  char link[32];
  const ssize_t length = ::readlink("/proc/self/ns/pid", link, sizeof link);  // pid:[4026531836]
  if (length <= 0) return pid_namespace_by_pidfd();
  return static_cast<std::uint32_t>(digits_in(link, length));
}

enum class Answer { dead, alive, unknown };

// A pidfd becomes readable when the whole thread group has exited, so not for a zombie leader with live threads.
Answer ask_pidfd(std::uint32_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u);
  if (fd < 0) return errno == ESRCH ? Answer::dead : Answer::unknown;
  pollfd poll_fd{static_cast<int>(fd), POLLIN, 0};
  const int ready = ::poll(&poll_fd, 1, 0);
  ::close(static_cast<int>(fd));
  return ready < 0 ? Answer::unknown : ready == 0 ? Answer::alive : Answer::dead;
}

Answer ask_kill(std::uint32_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH ? Answer::alive : Answer::dead;
}

bool judge(const Identity& identity) {
  Answer answer = ask_pidfd(identity.pid);
  const bool certain = answer != Answer::unknown;
  if (!certain) answer = ask_kill(identity.pid);
  if (answer == Answer::dead) return false;
  if (!proc_shows_our_namespace()) return true;
  char path[40];
  stat_path(identity.pid, path);
  const ProcessStat stat = read_stat(path);
  if (!stat.known) return true;
  const bool comparable = identity.start_time != 0 && stat.start_time != 0;
  if (comparable && !bare::same_start(stat.start_time, identity.start_time)) return false;  // the pid was reused
  const bool zombie = stat.state == 'Z' || stat.state == 'X';
  return certain || !zombie || stat.threads > 1;
}

}  // namespace

Identity own_identity(bool* lacked) {
  const bare::KeepErrno keep_errno;
  const ProcessStat stat = read_stat("/proc/self/stat");
  const Identity identity{static_cast<std::uint32_t>(::getpid()), pid_namespace(), stat.start_time};
  if (lacked != nullptr) *lacked = stat.lacked;
  return identity;
}

bool is_alive(const Identity& identity, std::uint32_t own_pidns_inode) {
  if (identity.pidns_inode != own_pidns_inode) return true;
  if (identity.pid == 0 || identity.pid > 0x7fff'ffffu) return false;  // no process has such a pid
  const bare::KeepErrno keep_errno;
  return judge(identity);
}

}  // namespace headgate::ledger
