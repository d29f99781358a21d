// Draws the frames of `headgate top` from its state. Pure.
#pragma once

#include <string>
#include <vector>

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

// The parts of a frame, each a few lines.

// Draws the node in one line: name, SIMULATED, level, what is committed, alarms, the clock.
[[nodiscard]] FrameLine header_line(const TopState& state, unsigned width, FrameStyle style);
// Draws the last `most` events, oldest first, one line each; if `rows` has room, the newest ones wrap. Repeats of one
// kind from one share become one line with a count.
[[nodiscard]] std::vector<FrameLine> event_lines(const TopState& state, unsigned width, unsigned most, unsigned rows,
                                                 FrameStyle style);
// Draws two lines per GPU, or one if `most` requires it; if even that does not fit, says how many are left out.
[[nodiscard]] std::vector<FrameLine> gpu_lines(const TopState& state, unsigned width, unsigned most, FrameStyle style);
// Returns the heading of the first column: "SHARE".
[[nodiscard]] const char* view_heading(TopView view);
// Draws a heading and the rows around the selected one.
[[nodiscard]] std::vector<FrameLine> table_lines(const TopState& state, unsigned width, unsigned most,
                                                 FrameStyle style);
[[nodiscard]] std::vector<FrameLine> details_lines(const TopState& state, unsigned width, unsigned most,
                                                   FrameStyle style);
[[nodiscard]] std::vector<FrameLine> help_lines(const TopState& state, unsigned width, FrameStyle style);

// Returns SGR parameters for the share's name and for its bar segment. `place`: its index in the snapshot.
[[nodiscard]] std::string share_look(int place);
[[nodiscard]] std::string share_block(int place);

// "52%", "<1%", "-" if unknown.
[[nodiscard]] std::string ratio_text(const std::optional<double>& ratio);
// Formats a share's time limit on the GPU: "50%", "30-80%" with a guarantee below its ceiling, "all".
[[nodiscard]] std::string allowance_text(double guarantee_ratio, double ceiling_ratio);
// "15.1/16.0G", "512M/16.0G", "0.7G/-".
[[nodiscard]] std::string used_of_text(std::uint64_t used_bytes, const std::optional<std::uint64_t>& limit_bytes);
// "298/300 W", "" if the GPU does not report its power.
[[nodiscard]] std::string power_text(const snapshot::Gpu& gpu);

}  // namespace headgate::cli
