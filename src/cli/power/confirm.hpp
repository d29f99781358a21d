// A question on the terminal that is answered in time, or not.
#pragma once

#include <chrono>

namespace headgate::cli {

enum class Answer { yes, no, none };

// Whether a person sits at stdin and stderr.
[[nodiscard]] bool can_ask();
// Asks whether the settings are to stay. `none`: no line came in that time, or stdin has ended.
[[nodiscard]] Answer ask_within(std::chrono::seconds time);

}  // namespace headgate::cli
