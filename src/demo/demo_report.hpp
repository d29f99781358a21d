// Describes what headgate does about each demo tenant: live from a snapshot, and at the end from the simulator's truth.
// Draws the demo's frames: the node as in `headgate top`, and the tenants below it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/term/frame.hpp"
#include "cli/top/state.hpp"
#include "demo/demo_tenants.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::demo {

// What is known of a running or finished tenant.
struct DemoProgress {
  bool started = false, ended = false;
  std::optional<double> told_after_s;  // bypasser: when the audit named it; notebook: when an event reported it idle
};

// Returns at most 36 cells: "held at 50% of the GPU". `snapshot` may predate the tenant's first call.
[[nodiscard]] std::string demo_story(const DemoTenant& tenant, const DemoProgress& progress,
                                     const snapshot::Snapshot& snapshot);

// Final measurements of a tenant, from the simulator's truth except for `refusals` and `told_after_s`.
struct DemoMeasured {
  std::string name;
  DemoRole role = DemoRole::trainer;
  std::uint64_t limit_bytes = 0, asked_bytes = 0, takes_bytes = 0;
  double promised_percent = 0, ceiling_percent = 0;

  double held_percent = 0;        // of the GPU's time, while all tenants worked
  std::uint64_t peak_bytes = 0;   // without contexts
  std::uint64_t refusals = 0;     // by the daemon
  std::uint64_t given_bytes = 0;  // how much it got of one request beyond its limit
  bool grow_refused = false;
  std::uint64_t grown_bytes = 0;
  double request_p50_ms = 0, request_p99_ms = 0;
  std::optional<double> told_after_s;
};

inline constexpr double kDemoPoints = 1;  // tolerated deviation from a promise, of the GPU's time

struct DemoVerdict {
  std::string tenant{}, promised{}, measured{};
  bool kept = false;
};
[[nodiscard]] DemoVerdict demo_verdict(const DemoMeasured& measured);

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
