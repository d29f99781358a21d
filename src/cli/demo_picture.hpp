// The demo's picture: what is known in, text out. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/frame.hpp"

namespace headgate::cli {

struct DemoShare {
  std::string name;
  std::string work;             // "200 us kernels"
  std::uint32_t asked_ppm = 0;  // of the GPU's time
  std::uint32_t got_ppm = 0;    // over the last second
  std::uint64_t memory_used_bytes = 0;
  std::uint64_t memory_limit_bytes = 0;
  bool running = false;
};

struct DemoState {
  std::string gpu;  // "NVIDIA H200, 141.0 GiB"
  double elapsed_s = 0;
  double total_s = 0;
  std::vector<DemoShare> shares;
  std::vector<std::string> events;  // oldest first; the newest that fit are shown
};

// Smaller than this there is no picture, only plain lines.
inline constexpr FrameSize kSmallestFrame{60, 14};

// At most size.rows lines of at most size.columns cells, each but the last ended by '\n'. Every frame says SIMULATED.
[[nodiscard]] std::string render(const DemoState& state, FrameSize size, FrameStyle style);

// The same in one line, for pipes and dumb terminals; no '\n'.
[[nodiscard]] std::string render_line(const DemoState& state);

struct DemoVerdict {
  std::string share;
  double asked_percent = 0, got_percent = 0;
  std::uint64_t memory_limit_bytes = 0, memory_asked_bytes = 0, memory_got_bytes = 0;  // truth's peak
  bool compute_judged = false;                                                         // it had work all the time
  bool kept = true;
};

// "asked / got / error" with a sentence below.
[[nodiscard]] std::string render_verdict(const std::vector<DemoVerdict>& verdicts, double measured_s);

}  // namespace headgate::cli
