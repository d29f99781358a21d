// The node's GPUs as the command's words use them, from what NVML tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

struct Gpu {
  std::uint32_t index = 0;  // PCI order, as nvidia-smi counts
  std::string uuid, model, pci_bus_id;
  std::uint64_t memory_total_bytes = 0, memory_used_bytes = 0, memory_free_bytes = 0, memory_reserved_bytes = 0;
  std::optional<std::uint32_t> busy_percent, temperature_c, power_mw, power_limit_mw;
  std::vector<std::uint32_t> pids;  // that NVML sees on it
};

struct Gpus {
  std::vector<Gpu> list;
  std::string driver_version;
  std::string library;  // the file that answered
  bool simulated = false;
};

// Which NVML to ask. A simulated node's directory must exist.
struct Source {
  std::string library = "libnvidia-ml.so.1";
  std::string simulated_directory;  // empty: the machine's own
};

// "NVIDIA H200" -> "H200".
[[nodiscard]] std::string short_model(const std::string& model);

// Without its pids.
[[nodiscard]] Gpu gpu_of(const snapshot::Gpu& from);

// Errors: unreachable (no driver library, or it does not answer), with a hint that names --sim.
[[nodiscard]] Result<Gpus> read_gpus(const Source& source);

}  // namespace headgate::cli
