// Draws the frames of `headgate top` from its state. Pure.
#pragma once

#include <string>

#include "cli/term/frame.hpp"
#include "cli/term/output.hpp"
#include "cli/top/state.hpp"

namespace headgate::cli {

// A smaller terminal gets a message instead.
inline constexpr FrameSize kSmallestTop{60, 12};

// Returns at most size.rows lines of at most size.columns cells, each but the last ending in '\n'. Contains only text
// and our own colours, whatever names the snapshot holds. Every frame shows a weak enforcement level and, if simulated,
// SIMULATED.
[[nodiscard]] std::string render(const TopState& state, FrameSize size, FrameStyle style);

// The same as a one-time table for scripts and screen readers: no bars, each value with its label.
[[nodiscard]] std::string top_text(const TopState& state, const Voice& voice);
[[nodiscard]] std::string top_json(const TopState& state);

}  // namespace headgate::cli
