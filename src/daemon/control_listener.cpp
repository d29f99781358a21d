#include "daemon/control_listener.hpp"

#include <utility>

#include "daemon/journal.hpp"
#include "daemon/settings.hpp"

namespace headgate::daemon {

http::ServerLimits ControlListener::limits(Context& context) {
  http::ServerLimits limits = server_limits(context.config);
  if (context.access.now()->token)
    limits.shows_key = [&context](const http::Request& request) {
      return api::shows_token(request, *context.access.now());
    };
  return limits;
}

ControlListener::ControlListener(Context& context, http::Router routes)
    : context_(context), server_(context.loop, std::move(routes), limits(context)) {
  server_.tell_trouble([](const std::string& what) { warn(what); });
}

Result<void> ControlListener::listen() {
  const auto address = TRY(tcp_address(context_.config, context_.options, context_.access.now()->token.has_value()));
  const mode_t mode = for_all(context_.config) ? 0666 : 0660;
  where_ = context_.places.socket;
  TRY(server_.listen(http::UnixListener{.path = where_, .mode = mode, .group = context_.group}));
  if (address) where_ += ", " + url_of(*address, TRY(server_.listen(address->host, address->port)));
  return {};
}

void ControlListener::keep_socket() {
  const auto kept = keep_control_directory(context_.places, {.group = context_.group, .all = for_all(context_.config)});
  const auto bound = kept ? server_.listen_anew() : std::unexpected(kept.error());
  if (bound && *bound > 0) warn("its socket was removed: listens again at " + context_.places.socket);
  const std::string trouble =
      bound ? "" : "its socket was removed, and no client can reach it: " + bound.error().message;
  if (std::exchange(trouble_, trouble) != trouble && !trouble.empty()) warn(trouble);
}

}  // namespace headgate::daemon
