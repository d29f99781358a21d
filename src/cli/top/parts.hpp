// The parts of the picture of `headgate top`, each a few lines. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/term/frame.hpp"
#include "cli/top/rows.hpp"
#include "cli/top/state.hpp"

namespace headgate::cli {

// The node in one line: its name, SIMULATED, the level, what is committed, who needs a look, the clock.
[[nodiscard]] FrameLine header_line(const TopState& state, unsigned width, FrameStyle style);
// The newest events, oldest first; the same again and again from one share is one line with a count.
// The last `most` events, a line each; where `rows` has more lines than that, the newest have as many as they need.
[[nodiscard]] std::vector<FrameLine> event_lines(const TopState& state, unsigned width, unsigned most, unsigned rows,
                                                 FrameStyle style);
// Two lines for each GPU, one where `most` allows no more, and how many are left out where not even that.
[[nodiscard]] std::vector<FrameLine> gpu_lines(const TopState& state, unsigned width, unsigned most, FrameStyle style);
// What the first column has: "SHARE".
[[nodiscard]] const char* view_heading(TopView view);
// A heading and rows around the selected one.
[[nodiscard]] std::vector<FrameLine> table_lines(const TopState& state, unsigned width, unsigned most,
                                                 FrameStyle style);
[[nodiscard]] std::vector<FrameLine> details_lines(const TopState& state, unsigned width, unsigned most,
                                                   FrameStyle style);
[[nodiscard]] std::vector<FrameLine> help_lines(const TopState& state, unsigned width, FrameStyle style);

// SGR numbers of the share at this place in the picture: for its name, and for its part of a bar.
[[nodiscard]] std::string share_look(int place);
[[nodiscard]] std::string share_block(int place);

// "52%", "<1%", "-" where it is not known.
[[nodiscard]] std::string ratio_text(const std::optional<double>& ratio);
// What a share may use of the GPU's time: "50%", "30-80%" with a guarantee below its ceiling, "all".
[[nodiscard]] std::string allowance_text(double guarantee_ratio, double ceiling_ratio);
// "15.1/16.0G", "512M/16.0G", "0.7G/-".
[[nodiscard]] std::string used_of_text(std::uint64_t used_bytes, const std::optional<std::uint64_t>& limit_bytes);
// "298/300 W", "" where the card does not tell.
[[nodiscard]] std::string power_text(const snapshot::Gpu& gpu);

}  // namespace headgate::cli
