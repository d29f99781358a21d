// Asks a question on the terminal, with a time limit.
#pragma once

#include <chrono>

namespace headgate::cli {

enum class Answer { yes, no, none };

// Returns true if stdin and stderr are terminals.
[[nodiscard]] bool can_ask();
// Asks whether to keep the settings. Returns `none` if no line came in that time or stdin ended.
[[nodiscard]] Answer ask_within(std::chrono::seconds time);

}  // namespace headgate::cli
