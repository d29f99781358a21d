// Cost of setting GPUs: the zeusd API with GPUs that reply at once, and the built headgated on the simulator.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// Rows that need root say so if run without (the simulated driver lets only root set a GPU).
[[nodiscard]] Result<Section> power_section(const Setting& setting);

}  // namespace headgate::bench
