// Formats figures and GPUs for the audit's texts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/units.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// Returns "90 %", in whole percent.
inline std::string format_percent(double ratio) {
  return percent_text(static_cast<std::uint64_t>(ratio * 100 + 0.5) * 10'000);
}

// Returns "GPU 0"; its UUID if it is not there.
inline std::string gpu_text(const std::vector<snapshot::Gpu>& gpus, const std::string& uuid) {
  const auto gpu = std::ranges::find(gpus, uuid, &snapshot::Gpu::uuid);
  return gpu == gpus.end() ? uuid : "GPU " + std::to_string(gpu->index);
}
// Returns " on GPU 0".
inline std::string format_gpu(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  return " on " + gpu_text(snapshot.gpus, uuid);
}

}  // namespace headgate::observe
