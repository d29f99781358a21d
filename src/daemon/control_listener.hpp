// The server of the daemon's API: its control socket and, where asked for, TCP.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"
#include "daemon/context.hpp"
#include "http/server.hpp"

namespace headgate::daemon {

// For the loop's thread.
class ControlListener {
 public:
  // Both must outlive it.
  ControlListener(Context& context, http::Router routes);

  // Errors: of the sockets; usage for the TCP address.
  [[nodiscard]] Result<void> listen();
  // Makes the control socket again if it was removed (by a cleaner of old files, or by mistake): without it no client
  // finds the daemon. Call it about once a second.
  void keep_socket();

  // Returns where it answers, for the log.
  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] std::size_t connections() const { return server_.connections(); }
  // Closes connections over TCP: their token is no longer the daemon's.
  void hang_up_tcp() { server_.hang_up_tcp(); }
  void stop() { server_.stop(); }

 private:
  [[nodiscard]] static http::ServerLimits limits(Context& context);

  Context& context_;
  http::Server server_;
  std::string where_, trouble_;  // trouble: last reported
};

}  // namespace headgate::daemon
