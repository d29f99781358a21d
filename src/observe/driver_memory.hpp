// Reads by NVML how much GPU memory each process holds, fast enough to do it whenever a limiter asks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "nvml/library.hpp"

namespace headgate::observe {

// One process on one GPU.
struct DriverProcess {
  std::string uuid;
  std::uint32_t pid = 0;  // on the host
  std::optional<std::uint64_t> bytes;
  std::optional<double> busy_ratio = {};
  bool mps = false;      // a client of an MPS server
  bool at_work = false;  // an engine of the GPU worked for it lately: SMs, copies, video

  friend bool operator==(const DriverProcess&, const DriverProcess&) = default;
};

struct CardMemory {
  std::uint64_t total_bytes = 0, used_bytes = 0, free_bytes = 0, reserved_bytes = 0;
  bool lists_processes = false;
  // NVML has no figures of this GPU: the total is CUDA's, and the sum over listed processes is in use.
  bool only_total = false;
  // In use but held by no living process: no more than this outlives its process. Null if NVML does not give processes'
  // parts. What comes or goes during the reading makes it larger, never smaller.
  std::optional<std::uint64_t> unattributed_bytes = {};
};

struct DriverMemory {
  std::map<std::string, CardMemory> cards;  // by UUID; those that answered
  std::vector<DriverProcess> processes;     // one row for each process and GPU

  // Returns null if the driver does not say; 0 for a process that it does not list.
  [[nodiscard]] std::optional<std::uint64_t> bytes_of(const std::string& uuid, std::uint32_t pid) const;
  // Returns null if the driver does not list it there.
  [[nodiscard]] const DriverProcess* process_on(const std::string& uuid, std::uint32_t pid) const;
  [[nodiscard]] std::optional<std::uint64_t> unattributed_on(const std::string& uuid) const;
};

// Adds one GPU to `out`.
void read_memory(const nvml::Library& nvml, abi::nvmlDevice_t device, const std::string& uuid, DriverMemory& out);

// Reads all GPUs. Errors: unreachable (the driver does not count them).
[[nodiscard]] Result<DriverMemory> read_memory(const nvml::Library& nvml);

}  // namespace headgate::observe
