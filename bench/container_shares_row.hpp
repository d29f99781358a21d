// Two containers of runc in shares of one GPU, under full load.
#pragma once

#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

// On shares of 30 and 70 %, for 10 s. A row that says why where containers cannot be started here.
[[nodiscard]] Row container_shares_row(const Setting& setting);

}  // namespace headgate::bench
