// What MPS costs the daemon: control daemons started, counted, watched and stopped.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

[[nodiscard]] Result<Section> mps_section(const Setting& setting);

}  // namespace headgate::bench
