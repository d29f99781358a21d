// The demo's picture: the node as `headgate top` draws it, and below it what each tenant does and what headgate does.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/term/frame.hpp"
#include "cli/top/state.hpp"
#include "demo/demo_report.hpp"

namespace headgate::demo {

struct DemoLine {
  std::string name, does, headgate;
};

struct DemoState {
  cli::TopState node;
  double elapsed_s = 0, total_s = 0;
  std::vector<DemoLine> lines;
};

// Smaller than this there is no picture, only plain lines.
inline constexpr cli::FrameSize kSmallestDemo{76, 20};

// At most size.rows lines of at most size.columns cells, each but the last ended by '\n'. Every frame says SIMULATED.
[[nodiscard]] std::string render_demo(const DemoState& state, cli::FrameSize size, cli::FrameStyle style);

// A table of what was promised and what was measured, with a sentence below. It says SIMULATED.
[[nodiscard]] std::string render_verdicts(const std::vector<DemoVerdict>& verdicts, double measured_s);

}  // namespace headgate::demo
