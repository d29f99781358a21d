// Asks the user on the terminal.
#pragma once

#include <chrono>
#include <string_view>

namespace headgate::cli {

// Returns true if stdin and stderr are terminals.
[[nodiscard]] bool can_ask();
enum class Answer { yes, no, none };
// Asks, and takes y and yes for yes. Returns `none` if no line came within `time` (0: no limit) or stdin ended.
[[nodiscard]] Answer ask_user(std::string_view question, std::chrono::seconds time = std::chrono::seconds(0));

}  // namespace headgate::cli
