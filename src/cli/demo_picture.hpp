// The demo's picture: the node as `headgate top` draws it, and below it what each tenant does and what headgate does. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/demo_story.hpp"
#include "cli/frame.hpp"
#include "cli/top/state.hpp"

namespace headgate::cli {

struct DemoLine {
  std::string name, does, headgate;
};

struct DemoState {
  TopState node;
  double elapsed_s = 0, total_s = 0;
  std::vector<DemoLine> lines;
};

// Smaller than this there is no picture, only plain lines.
inline constexpr FrameSize kSmallestDemo{76, 20};

// At most size.rows lines of at most size.columns cells, each but the last ended by '\n'. Every frame says SIMULATED.
[[nodiscard]] std::string render_demo(const DemoState& state, FrameSize size, FrameStyle style);

// A table of what was promised and what was measured, with a sentence below. It says SIMULATED.
[[nodiscard]] std::string render_verdicts(const std::vector<DemoVerdict>& verdicts, double measured_s);

}  // namespace headgate::cli
