#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>

#include "guest/bare/text.hpp"
#include "guest/limiter/session/log_level.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

std::atomic<LogLevel> highest{LogLevel::error};
std::atomic<std::int64_t> said_at[64];
constexpr std::int64_t kMinute = 60'000'000'000;

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warn: return "warning";
    case LogLevel::info: return "info";
    default: return "debug";
  }
}

}  // namespace

void set_log_level(LogLevel level) { highest.store(level, std::memory_order_relaxed); }

bool log_wanted(LogLevel level) { return level != LogLevel::off && level <= highest.load(std::memory_order_relaxed); }

void log_line(LogLevel level, const char* format, ...) {
  if (!log_wanted(level)) return;
  const int saved = errno;
  char buffer[1024];
  bare::Text text(buffer);
  text.add("headgate: ").add(name_of(level)).add(": ");
  va_list arguments;
  va_start(arguments, format);
  text.add_format(format, arguments);
  va_end(arguments);
  std::size_t size = text.size();
  buffer[size++] = '\n';  // in the place of the terminator, which one write does not need
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, buffer, size);
  errno = saved;
}

std::int64_t coarse_now_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

bool may_say(std::uint32_t event) {
  const std::int64_t now = coarse_now_ns();
  std::int64_t last = said_at[event % 64].load(std::memory_order_relaxed);
  if (last != 0 && now - last < kMinute) return false;
  return said_at[event % 64].compare_exchange_strong(last, now == 0 ? 1 : now);
}

}  // namespace headgate::limiter
