// Signals by name, and their way to exactly the process that a picture showed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::cli {

// "TERM", "sigterm", "15"; empty: TERM. Nothing where it names none.
[[nodiscard]] std::optional<int> signal_number(std::string_view word);
// "TERM"; the number where it has no name.
[[nodiscard]] std::string signal_word(int number);

// To the process that had this number when a picture was taken: through a pidfd, and only where /proc shows that it
// began before that. Errors: failed where it has ended, whoever has its number now; denied where it is not ours to
// signal.
[[nodiscard]] Result<void> send_signal(std::uint32_t pid, std::uint64_t seen_unix_ns, int number);

}  // namespace headgate::cli
