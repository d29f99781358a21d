#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

// Removes a context that is being destroyed from all peers.
void forget_peers(const Context* context);

}  // namespace headgate::sim::driver
