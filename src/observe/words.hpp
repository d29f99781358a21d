// How the audit speaks of figures and GPUs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/units.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// "90 %", in whole percent.
inline std::string percent_words(double ratio) {
  return percent_text(static_cast<std::uint64_t>(ratio * 100 + 0.5) * 10'000);
}

// " on GPU 0"; by its UUID where the picture does not have it.
inline std::string gpu_words(const snapshot::Snapshot& picture, const std::string& uuid) {
  const auto gpu = std::ranges::find(picture.gpus, uuid, &snapshot::Gpu::uuid);
  return " on " + (gpu == picture.gpus.end() ? uuid : "GPU " + std::to_string(gpu->index));
}

}  // namespace headgate::observe
