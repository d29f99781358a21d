// Writes the daemon's messages to standard error, one line each. If systemd's journal reads it, the line begins with
// its level ("<4>", sd-daemon(3)), so that `journalctl -p warning` finds it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "snapshot/snapshot.hpp"

namespace headgate::daemon {

enum class JournalLevel { error = 3, warning = 4, info = 6 };  // as syslog(3) counts

// Writes one line of at most PIPE_BUF bytes. Never blocks: a line for which a stalled reader leaves no room is lost,
// and the next that fits says how many were. Thread-safe.
void journal(JournalLevel level, std::string_view text);
inline void note(std::string_view text) { journal(JournalLevel::info, text); }
inline void warn(std::string_view text) { journal(JournalLevel::warning, text); }

// Returns the line, without its end. Line feeds and control characters in the text become '?' or blanks.
[[nodiscard]] std::string journal_line(JournalLevel level, std::string_view text, bool with_level);

// Returns the journal level of an event. Empty: the event does not appear there, because it is below a warning, or
// because the daemon has already logged its cause in more detail than all users may see.
[[nodiscard]] std::optional<JournalLevel> journal_level(const snapshot::Event& event);

}  // namespace headgate::daemon
