// The daemon's replies about power, as plain values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

using ClockSpan = std::pair<std::uint32_t, std::uint32_t>;  // MHz, minimum and maximum; {0, 0}: not locked

// A lease on a GPU: settings that end with a process or at a time.
struct PowerLease {
  std::string id, holder;             // "lease 3fa0 of uid 1000 (process 4711)"
  std::vector<std::string> controls;  // "power limit", "GPU clocks"
  std::int64_t ends_at_s = 0;         // CLOCK_REALTIME; 0: no time limit
  bool paused = false;                // the GPU is taken by a driver reset
};

struct PowerGpu {
  std::uint32_t index = 0;
  std::string uuid, model;
  // Empty: unknown. Power limits as requested from the driver and as it enforces them.
  std::optional<std::uint64_t> power_mw, energy_mj, requested_limit_mw, enforced_limit_mw, min_limit_mw, max_limit_mw,
      default_limit_mw, sm_clock_mhz, memory_clock_mhz;
  std::optional<bool> persistence;
  std::string compute_mode;
  std::optional<ClockSpan> gpu_clocks, mem_clocks;  // last locked by headgate
  std::vector<std::string> throttle_reasons;
  std::vector<PowerLease> leases;
  std::string error;  // why its settings are unreadable
};

struct PowerState {
  std::vector<PowerGpu> gpus;
  std::string drift, at_start;
};

struct PowerProfile {
  std::string name, settings, origin;  // settings: "power limit 80%, persistence on"
};

// One change to a GPU, made or proposed.
struct PowerChange {
  std::string control, from, to;  // "power limit", "350 W", "200 W"; from: "" if unknown
};
struct GpuChanges {
  std::uint32_t index = 0;
  std::string uuid;
  std::vector<PowerChange> changes;
  std::optional<std::string> error;
};

// The settings that a lease made on each GPU, and the former ones.
struct LeaseMade {
  std::string id;
  std::int64_t ends_at_s = 0;
  std::uint32_t holder_pid = 0;
  std::vector<GpuChanges> gpus;  // without indices
};

// Errors: failed, where the daemon's answer is not understood.
[[nodiscard]] Result<PowerState> power_state_from(const std::string& json);
[[nodiscard]] Result<std::vector<PowerProfile>> power_profiles_from(const std::string& json);
[[nodiscard]] Result<std::vector<GpuChanges>> power_changes_from(const std::string& json);
[[nodiscard]] Result<LeaseMade> lease_from(const std::string& json);

// Formats milliwatts: "200 W", "99.9 W".
[[nodiscard]] std::string watts(std::uint64_t milliwatts);
// Formats locked clocks as the daemon does: "210 to 1200 MHz", "1200 MHz", "none".
[[nodiscard]] std::string format_clocks(const ClockSpan& clocks);

}  // namespace headgate::cli
