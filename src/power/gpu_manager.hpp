// The interface through which headgate sets power and clocks of one GPU. Implemented by NVML and, for tests, by the
// recording manager.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace headgate::power {

struct PowerRange {
  std::uint32_t min_mw = 0, max_mw = 0;
  friend bool operator==(const PowerRange&, const PowerRange&) = default;
};

// Facts that do not change while the driver is loaded.
struct GpuIdentity {
  std::string name;         // "NVIDIA H200"
  std::string uuid;         // "GPU-..."
  std::string pci_address;  // "0000:17:00.0"
  bool has_energy_counter = false;
  std::optional<PowerRange> limit_range;          // of the power limit; empty: not reported
  std::optional<std::uint32_t> default_limit_mw;  // default power limit; empty: not reported
};

struct ClockRange {
  std::uint32_t min_mhz = 0, max_mhz = 0;
  friend bool operator==(const ClockRange&, const ClockRange&) = default;
};

// One GPU. Setters are called by one thread at a time; getters by any thread, also during a setter. Errors of all:
// denied (no permission), usage (value out of range), unsupported (the GPU lacks the setting), unreachable (GPU or
// driver is gone), failed.
class GpuManager {
 public:
  virtual ~GpuManager() = default;

  [[nodiscard]] virtual const GpuIdentity& identity() const = 0;

  virtual Result<void> set_persistence_mode(bool enabled) = 0;
  virtual Result<void> set_power_limit(std::uint32_t limit_mw) = 0;
  virtual Result<void> set_gpu_locked_clocks(ClockRange clocks) = 0;
  virtual Result<void> set_mem_locked_clocks(ClockRange clocks) = 0;
  virtual Result<void> reset_gpu_locked_clocks() = 0;
  virtual Result<void> reset_mem_locked_clocks() = 0;
  // NVML's numbers: 0 default, 2 prohibited, 3 exclusive process.
  virtual Result<void> set_compute_mode(std::uint32_t mode) = 0;
  // 0 default, 1 short, 2 medium, 3 long. Errors too: unsupported, where there is no tool for it.
  virtual Result<void> set_time_slice(std::uint32_t length);
  // Resets both, the second also where the first fails. Errors: the first one.
  virtual Result<void> reset_locked_clocks();

  [[nodiscard]] virtual Result<std::uint32_t> instant_power_mw() = 0;
  // Since the driver was loaded.
  [[nodiscard]] virtual Result<std::uint64_t> total_energy_mj() = 0;
  // Returns the limit last requested.
  [[nodiscard]] virtual Result<std::uint32_t> power_limit_mw() = 0;
  [[nodiscard]] virtual Result<PowerRange> power_limit_range() = 0;
  [[nodiscard]] virtual Result<bool> persistence_mode() = 0;
  [[nodiscard]] virtual Result<std::uint32_t> compute_mode() = 0;
  [[nodiscard]] virtual Result<std::uint32_t> time_slice();
};

}  // namespace headgate::power
