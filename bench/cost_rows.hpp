// Cost of a preloaded library: per launch, per allocation, at the start. On the do-nothing driver.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// Each round runs native, ours, the peers, then in reverse peers, ours, native: N-O-P-P-O-N. A library's figure for a
// round is the mean of its two runs minus the mean of native's two. The table shows the median of the rounds, the JSON
// all of them.
[[nodiscard]] Result<Section> cost_section(const Setting& setting);

}  // namespace headgate::bench
