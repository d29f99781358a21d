// What a preloaded library costs a program: per launch, per allocation, at the start. Over the do-nothing driver.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// Every round runs native, ours, the peers, ours again backwards, native: N-O-P-P-O-N. A round's figure of a library is
// the mean of its two runs minus the mean of native's two; the table shows the median over the rounds, the JSON all of
// them.
[[nodiscard]] Result<Section> cost_section(const Setting& setting);

}  // namespace headgate::bench
