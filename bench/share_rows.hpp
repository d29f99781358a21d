// How exactly a share is held, in real time over the simulator, by the simulator's truth.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// One share alone on a node: limits x kernels, then streams, processes and threads. See split.hpp for what is judged.
[[nodiscard]] Result<Section> share_section(const Setting& setting, const NoiseSampler& noise);

// The same for each function that launches, graphs and per-thread default streams.
[[nodiscard]] Result<Section> kinds_section(const Setting& setting, const NoiseSampler& noise);

// The ceiling in the share's policy page goes 20 -> 80 -> 20 %, 50 times.
[[nodiscard]] Result<Section> response_section(const Setting& setting);

}  // namespace headgate::bench
