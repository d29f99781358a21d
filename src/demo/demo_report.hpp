// What headgate does about each of the demo's tenants, in words: of a picture while they run, of the node's truth at
// the end. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "demo/demo_tenants.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::demo {

// What is known of a tenant while it runs and of those that have run.
struct DemoProgress {
  bool started = false, ended = false;
  std::optional<double> told_after_s;  // bypasser: the audit named it; notebook: an event said that it is idle
};

// At most 36 cells: "held at 50% of the GPU". `picture` may be of before the tenant's first call.
[[nodiscard]] std::string demo_story(const DemoTenant& tenant, const DemoProgress& progress,
                                     const snapshot::Snapshot& snapshot);

// What was measured of a tenant when all was over; figures of the simulator's truth but for `refusals` and
// `told_after_s`.
struct DemoMeasured {
  std::string name;
  DemoRole role = DemoRole::trainer;
  std::uint64_t limit_bytes = 0, asked_bytes = 0, takes_bytes = 0;
  double promised_percent = 0, ceiling_percent = 0;

  double held_percent = 0;        // of the GPU's time, while all worked
  std::uint64_t peak_bytes = 0;   // contexts left out
  std::uint64_t refusals = 0;     // by the daemon
  std::uint64_t given_bytes = 0;  // of what it asked for beyond its limit at once
  bool grow_refused = false;
  std::uint64_t grown_bytes = 0;
  double request_p50_ms = 0, request_p99_ms = 0;
  std::optional<double> told_after_s;
};

inline constexpr double kDemoPoints = 1;  // of the GPU's time, that a promise may be missed by

struct DemoVerdict {
  std::string tenant{}, promised{}, measured{};
  bool kept = false;
};
[[nodiscard]] DemoVerdict demo_verdict(const DemoMeasured& measured);

}  // namespace headgate::demo
