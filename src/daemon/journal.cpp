#include "daemon/journal.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

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
  const std::string line = journal_line(level, text, with_level) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // in one piece: stderr has a lock
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
