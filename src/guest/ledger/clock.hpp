// The clock of times in the pages, for host rooms, which may include guest/ledger but not guest/bare.
#pragma once

#include "guest/bare/clock.hpp"

namespace headgate::ledger {

using bare::host_ns;
using bare::host_start_time;
using bare::same_start;

}  // namespace headgate::ledger
