// Cost of MPS for the daemon: starting, counting, watching and stopping control daemons.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

[[nodiscard]] Result<Section> mps_section(const Setting& setting);

}  // namespace headgate::bench
