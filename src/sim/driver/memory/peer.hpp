#pragma once

#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

// A context goes: nobody's peer any more.
void forget_peers(const Context* context);

}  // namespace headgate::sim::driver
