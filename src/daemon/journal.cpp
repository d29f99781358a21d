#include "daemon/journal.hpp"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>

#include "base/utf8.hpp"

namespace headgate::daemon {
namespace {

// systemd.exec(5): device and inode of what standard error was when the service started.
bool is_read_by_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat facts{};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &facts) != 0) return false;
  return stream == std::to_string(facts.st_dev) + ":" + std::to_string(facts.st_ino);
}

// Returns false if the reader does not read: it must not block the daemon. A pipe that poll() calls writable takes
// PIPE_BUF bytes at once (pipe(7)).
bool put(std::string line) {
  line.resize(std::min<std::size_t>(line.size(), PIPE_BUF - 1));
  line += '\n';
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0 &&
         ::write(STDERR_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace

std::string journal_line(JournalLevel level, std::string_view text, bool with_level) {
  std::string line(text);
  for (char& c : line)
    if (c == '\n') c = ' ';
  const std::string prefix = with_level ? "<" + std::to_string(static_cast<int>(level)) + ">" : "";
  return prefix + "headgated: " + printable(line);
}

void journal(JournalLevel level, std::string_view text) {
  static const bool with_level = is_read_by_journal();
  static std::mutex mutex;
  static std::uint64_t lost = 0;
  const std::scoped_lock lock(mutex);
  if (lost > 0 && put(journal_line(JournalLevel::warning,
                                   std::to_string(lost) + " lines were lost: nothing read standard error", with_level)))
    lost = 0;
  if (!put(journal_line(level, text, with_level))) ++lost;
}

std::optional<JournalLevel> journal_level(const snapshot::Event& event) {
  static constexpr std::array<std::string_view, 5> kSaid = {"events.unsaved", "config.refused", "config.read",
                                                            "power.lease", "power.site"};
  for (const std::string_view kind : kSaid)
    if (event.kind == kind) return std::nullopt;
  if (event.severity == "error") return JournalLevel::error;
  if (event.severity == "warn") return JournalLevel::warning;
  return std::nullopt;
}

}  // namespace headgate::daemon
