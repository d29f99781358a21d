// The interface through which headgate sets power and clocks of one GPU. Implemented by NVML and, for tests, by the
// recording manager.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "power/command.hpp"

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

// One GPU. Writes are called by one thread at a time; reads by any thread, also during a write.
class GpuManager {
 public:
  virtual ~GpuManager() = default;

  [[nodiscard]] virtual const GpuIdentity& identity() const = 0;

  // A write returns an empty Reading. A power limit read is the one last requested; energy counts from when the driver
  // was loaded. A reset of both clocks resets the second also if the first fails, and reports the first error. Errors:
  // denied (no permission), usage (value out of range), unsupported (the GPU lacks the setting, or there is no tool for
  // it), unreachable (GPU or driver is gone), failed.
  virtual Result<Reading> perform(const Command& command) = 0;
  // Returns the value of a read.
  [[nodiscard]] Result<std::uint64_t> read(Operation operation) { return TRY(perform({.operation = operation})).value; }
};

// Resets GPU clocks, then memory clocks: for a manager that cannot reset both at once.
[[nodiscard]] inline Result<Reading> reset_each_clocks(GpuManager& gpu) {
  const auto first = gpu.perform({.operation = Operation::reset_gpu_locked_clocks});
  const auto second = gpu.perform({.operation = Operation::reset_mem_locked_clocks});
  return first ? second : first;
}

}  // namespace headgate::power
