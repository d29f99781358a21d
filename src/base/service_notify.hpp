// Tells systemd how the service is, by datagrams to the socket that $NOTIFY_SOCKET names (sd_notify(3)). Without such a
// socket, and when sending fails, nothing happens: a service must run as well under nobody's eyes. Never blocks.
// Thread-safe as long as nobody changes the environment.
#pragma once

#include <string_view>

namespace headgate {

enum class ServiceState {
  ready,      // started, or done with reloading
  reloading,  // until ready is told
  stopping,
  alive,  // for the watchdog: to be told more than twice in WatchdogSec=
};

// `status`: one line for `systemctl status`; empty leaves what was said before.
void tell_service_manager(ServiceState state, std::string_view status = {});

}  // namespace headgate
