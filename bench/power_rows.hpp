// What setting GPUs costs: the API of zeusd over GPUs that answer at once, and the built headgated over the simulator.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// Rows that need root (the simulated driver lets no other user set a GPU) say so where it is not.
[[nodiscard]] Result<Section> power_section(const Setting& setting);

}  // namespace headgate::bench
