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

// Returns " on GPU 0"; by its UUID if the snapshot does not have it.
inline std::string format_gpu(const snapshot::Snapshot& snapshot, const std::string& uuid) {
  const auto gpu = std::ranges::find(snapshot.gpus, uuid, &snapshot::Gpu::uuid);
  return " on " + (gpu == snapshot.gpus.end() ? uuid : "GPU " + std::to_string(gpu->index));
}

}  // namespace headgate::observe
