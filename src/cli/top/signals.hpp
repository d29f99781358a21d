// Signals by name, and sending them to exactly the process that a snapshot showed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::cli {

// Parses "TERM", "sigterm" or "15"; empty text means TERM. Returns nothing if unknown.
[[nodiscard]] std::optional<int> signal_number(std::string_view word);
// Returns "TERM", or the number if the signal has no name.
[[nodiscard]] std::string signal_word(int number);

// Signals the process that had this PID in a snapshot: through a pidfd, and only if /proc shows that it started before
// the snapshot. Errors: failed if it has ended, even if the PID is in use again; denied if we may not signal it.
[[nodiscard]] Result<void> send_signal(std::uint32_t pid, std::uint64_t seen_unix_ns, int number);

}  // namespace headgate::cli
