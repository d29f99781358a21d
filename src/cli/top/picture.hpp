// The picture of `headgate top`: what is known and chosen in, text out. Pure.
#pragma once

#include <string>

#include "cli/term/frame.hpp"
#include "cli/term/output.hpp"
#include "cli/top/state.hpp"

namespace headgate::cli {

// Smaller than this a terminal gets a sentence instead.
inline constexpr FrameSize kSmallestTop{60, 12};

// At most size.rows lines of at most size.columns cells, each but the last ended by '\n'; nothing in it but text and
// our colours, whatever the names in the picture hold. Every frame says the level of enforcement and, where it is so,
// SIMULATED.
[[nodiscard]] std::string render(const TopState& state, FrameSize size, FrameStyle style);

// The same once, as a table for scripts and screen readers: no bars, each figure with its word.
[[nodiscard]] std::string top_text(const TopState& state, const Voice& voice);
[[nodiscard]] std::string top_json(const TopState& state);

}  // namespace headgate::cli
