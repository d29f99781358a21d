// The clock of what stands in the pages, for host rooms, which see of guest/ the ledger and not what it is made with.
#pragma once

#include "guest/bare/clock.hpp"

namespace headgate::ledger {

using bare::host_ns;
using bare::host_start_time;
using bare::same_start;

}  // namespace headgate::ledger
