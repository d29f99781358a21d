// Reports the service's state to systemd by datagrams to $NOTIFY_SOCKET (sd_notify(3)). Without that socket, or if
// sending fails, does nothing, because the service must also run without systemd. Never blocks. Thread-safe while the
// environment does not change.
#pragma once

#include <string_view>

namespace headgate {

enum class ServiceState {
  ready,      // started, or reloaded
  reloading,  // until the next ready
  stopping,
  alive,  // for the watchdog: send more than twice in WatchdogSec=
};

// `status`: one line for `systemctl status`; empty keeps the former one.
void tell_service_manager(ServiceState state, std::string_view status = {});

}  // namespace headgate
