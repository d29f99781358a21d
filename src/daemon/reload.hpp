// Reads the configuration again (SIGHUP): some keys take effect at once, the others at the next start.
#pragma once

#include "daemon/context.hpp"
#include "daemon/control_listener.hpp"
#include "daemon/node_host.hpp"
#include "daemon/node_observer.hpp"
#include "daemon/power_control.hpp"

namespace headgate::daemon {

// Reads the configuration again and applies it to the running parts. Reports what has changed, or what is wrong with
// the file. Call it on the loop's thread.
void reload_configuration(Context& context, NodeHost& node, NodeObserver& observer, PowerControl& power,
                          ControlListener& listener);

}  // namespace headgate::daemon
