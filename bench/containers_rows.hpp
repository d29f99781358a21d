// Cost of containers: headgate-oci in front of a runtime, CDI files, device requests.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

[[nodiscard]] Result<Section> containers_section(const Setting& setting);

}  // namespace headgate::bench
