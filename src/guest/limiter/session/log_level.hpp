// How much log_line() prints; error until the environment has been read.
#pragma once

#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {

void set_log_level(LogLevel level);

}  // namespace headgate::limiter
