// How exactly a share's limit is held, in real time on the simulator, by the simulator's truth.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// One share alone on a node: limits x kernels, then streams, processes and threads. What is judged: see split.hpp.
[[nodiscard]] Result<Section> share_section(const Setting& setting, const NoiseSampler& noise);

// The same for each function that launches, for graphs and for per-thread default streams.
[[nodiscard]] Result<Section> kinds_section(const Setting& setting, const NoiseSampler& noise);

// Changes the ceiling in the share's policy page 20 -> 80 -> 20 %, 50 times.
[[nodiscard]] Result<Section> response_section(const Setting& setting);

}  // namespace headgate::bench
