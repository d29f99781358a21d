#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>

#include "guest/bare/clock.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {
namespace {

std::atomic<LogLevel> highest{LogLevel::error};
std::atomic<bool> infos_wanted{false};
std::atomic<std::int64_t> said_at[64];
constexpr std::int64_t kMinute = 60'000'000'000;

char log_file[256];
enum class LogFile : std::uint32_t { none, being_set, set, told_unwritable };
std::atomic<LogFile> log_file_state{LogFile::none};

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warn: return "warning";
    case LogLevel::info: return "info";
    default: return "debug";
  }
}

// Never uses a standard stream's number: if the program closed one, it expects its next file to get that number.
int out_of_the_way(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(fd);
  return moved;
}

// A pipe without a reader is an error, not a wait. Returns false with errno.
bool write_to_file(const char* line, std::size_t size) {
  const int fd = out_of_the_way(
      ::open(log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0644));
  if (fd < 0) return false;
  const ssize_t written = ::write(fd, line, size);
  const int error = errno;
  ::close(fd);
  errno = error;
  return written >= 0;
}

void write_to_stderr(const char* line, std::size_t size) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, size);
}

// Replaces the terminator with a newline: one write needs none.
std::size_t end_line(bare::Text& text, char* buffer) {
  std::size_t size = text.size();
  buffer[size++] = '\n';
  return size;
}

void tell_unwritable(int error) {
  LogFile before = LogFile::set;
  if (!log_file_state.compare_exchange_strong(before, LogFile::told_unwritable)) return;
  char buffer[512];
  bare::Text text(buffer);
  text.add("headgate: warning: HEADGATE_LOG_FILE='").add_printable(log_file);
  text.add("' cannot be written (error ").add_signed(error).add("): what cannot go there is said here");
  write_to_stderr(buffer, end_line(text, buffer));
}

void write_line(const char* line, std::size_t size) {
  const LogFile state = log_file_state.load(std::memory_order_acquire);
  if (state == LogFile::set || state == LogFile::told_unwritable) {
    if (write_to_file(line, size)) return;
    tell_unwritable(errno);
  }
  write_to_stderr(line, size);
}

}  // namespace

void set_log_file(std::string_view path) {
  LogFile before = LogFile::none;
  if (!log_file_state.compare_exchange_strong(before, LogFile::being_set)) return;
  bare::Text(log_file).add(path);
  log_file_state.store(LogFile::set, std::memory_order_release);
}

void set_log_level(LogLevel level, bool infos) {
  highest.store(level, std::memory_order_relaxed);
  infos_wanted.store(infos, std::memory_order_relaxed);
}

bool log_wanted(LogLevel level) {
  if (level == LogLevel::info && infos_wanted.load(std::memory_order_relaxed)) return true;
  return level != LogLevel::off && level <= highest.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, const char* format, ...) {
  if (!log_wanted(level)) return;
  const bare::KeepErrno keep_errno;
  char buffer[1024];
  bare::Text text(buffer);
  text.add("headgate: ").add(name_of(level)).add(": ");
  va_list arguments;
  va_start(arguments, format);
  text.add_format(format, arguments);
  va_end(arguments);
  write_line(buffer, end_line(text, buffer));
}

std::int64_t coarse_now_ns() { return bare::now_ns(CLOCK_MONOTONIC_COARSE); }

bool may_say(std::uint32_t event) {
  const std::int64_t now = coarse_now_ns();
  std::int64_t last = said_at[event % 64].load(std::memory_order_relaxed);
  if (last != 0 && now - last < kMinute) return false;
  return said_at[event % 64].compare_exchange_strong(last, now == 0 ? 1 : now);
}

}  // namespace headgate::limiter
