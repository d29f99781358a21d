// Draws the demo's frames: the node as in `headgate top`, and below it what each tenant and headgate do. Pure.
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

// On a smaller terminal, only plain lines are printed.
inline constexpr cli::FrameSize kSmallestDemo{76, 20};

// Returns at most size.rows lines of up to size.columns cells, ending in '\n' except the last. Always shows SIMULATED.
[[nodiscard]] std::string render_demo(const DemoState& state, cli::FrameSize size, cli::FrameStyle style);

// Returns a table of promises and measurements, with a summary. Shows SIMULATED.
[[nodiscard]] std::string render_verdicts(const std::vector<DemoVerdict>& verdicts, double measured_s);

}  // namespace headgate::demo
