// Reads the configuration again (SIGHUP) and has the running parts take it over: all of it, or nothing.
#pragma once

#include "base/result.hpp"
#include "daemon/context.hpp"
#include "daemon/control_listener.hpp"
#include "daemon/node_host.hpp"
#include "daemon/node_observer.hpp"
#include "daemon/power_control.hpp"
#include "daemon/reload.hpp"

namespace headgate::daemon {

// For the loop's thread.
class ConfigurationReload {
 public:
  // All must outlive it.
  ConfigurationReload(Context& context, NodeHost& node, NodeObserver& observer, PowerControl& power,
                      ControlListener& listener)
      : context_(context), node_(node), observer_(observer), power_(power), listener_(listener) {}

  // Reports what has changed, or what is wrong with the file.
  void run();

 private:
  [[nodiscard]] Result<Changes> take();

  Context& context_;
  NodeHost& node_;
  NodeObserver& observer_;
  PowerControl& power_;
  ControlListener& listener_;
};

}  // namespace headgate::daemon
