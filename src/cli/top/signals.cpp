#include "cli/top/state.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>

#include "base/now.hpp"
#include "base/unique_fd.hpp"
#include "base/whole_number.hpp"
#include "guest/grant/text.hpp"

namespace headgate::cli {
namespace {

constexpr int kLast = 31;  // names of real-time signals differ between systems

// Returns the process's start time in ns since boot, to a clock tick (10 ms): field 22 of /proc/PID/stat. Fields are
// counted from the last ')', because the name may contain any character.
std::optional<std::uint64_t> began_ns(std::uint32_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  const auto ticks = whole_number(std::string_view(text).substr(at + 1, text.find(' ', at + 1) - at - 1));
  if (!ticks) return std::nullopt;
  return *ticks * (1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

// A process that started before the snapshot had the same PID in the snapshot.
bool had_its_number(std::uint32_t pid, std::uint64_t seen_unix_ns) {
  const auto began = began_ns(pid);
  timespec boot{};
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  const auto since_boot = static_cast<std::uint64_t>(boot.tv_sec * 1'000'000'000 + boot.tv_nsec);
  const std::uint64_t now = unix_now_ns();
  if (now < seen_unix_ns) return false;  // the clock was set back, so the snapshot's age is unknown
  const std::uint64_t age = now - seen_unix_ns;
  return began && *began <= since_boot - std::min(since_boot, age);
}

std::unexpected<Error> ended(std::uint32_t pid) {
  return fail(ErrorCode::failed, "process " + std::to_string(pid) + " has ended");
}

}  // namespace

std::optional<int> signal_number(std::string_view word) {
  if (word.empty()) return SIGTERM;
  if (const auto number = whole_number<int>(word)) return *number >= 1 && *number <= kLast ? number : std::nullopt;
  if (word.size() > 3 && grant::starts_ignoring_case(word, "SIG")) word.remove_prefix(3);
  for (int number = 1; number <= kLast; ++number)
    if (const char* known = ::sigabbrev_np(number); known != nullptr && grant::same_ignoring_case(word, known))
      return number;
  return std::nullopt;
}

std::string signal_word(int number) {
  const char* known = ::sigabbrev_np(number);
  return known == nullptr ? std::to_string(number) : known;
}

Result<void> send_signal(std::uint32_t pid, std::uint64_t seen_unix_ns, int number) {
  const auto refused = [pid](int error) -> std::unexpected<Error> {
    if (error == ESRCH) return ended(pid);
    if (error == EPERM) return fail(ErrorCode::denied, "process " + std::to_string(pid) + " is another user's");
    return fail(ErrorCode::failed, "process " + std::to_string(pid) + ": " + std::strerror(error));
  };
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u)));
  if (!process) return refused(errno);
  // Check only after opening the pidfd: if the process is reaped later, the signal fails instead of hitting another
  // process.
  if (!had_its_number(pid, seen_unix_ns)) return ended(pid);
  if (::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0u) != 0) return refused(errno);
  return {};
}

}  // namespace headgate::cli
