#include "cli/daemon.hpp"

#include "cli/output.hpp"
#include "cli/paths.hpp"
#include "http/client.hpp"

namespace headgate::cli {
namespace {

constexpr const char* kStart =
    "start it: sudo systemctl start headgated, or as yourself: headgated (with a simulated GPU: headgated --sim)";

bool answers(const http::Endpoint& endpoint) {
  const auto reply = http::exchange(endpoint, {.target = "/healthz"}, std::chrono::milliseconds(2'000));
  return reply.has_value();
}

}  // namespace

Result<std::optional<http::Endpoint>> find_daemon() {
  if (const std::string given = environment("HEADGATE_SOCKET"); !given.empty()) {
    auto endpoint = http::parse_endpoint(given);
    if (!endpoint) {
      return fail(ErrorCode::usage,
                  "the environment variable HEADGATE_SOCKET='" + harmless(given) + "': " + endpoint.error().message,
                  endpoint.error().hint);
    }
    if (!answers(*endpoint))
      return fail(ErrorCode::unreachable, "no headgated answers at HEADGATE_SOCKET='" + harmless(given) + "'", kStart);
    return *endpoint;
  }
  for (const std::string& path : daemon_sockets()) {
    const http::Endpoint endpoint{.path = path};
    if (answers(endpoint)) return endpoint;
  }
  return std::nullopt;
}

std::vector<std::string> daemon_sockets() {
  return {runtime_dir().value_or("") + "/control/headgate.sock", "/run/headgate/control/headgate.sock"};
}

Result<http::Endpoint> need_daemon() {
  const auto found = TRY(find_daemon());
  if (!found) return fail(ErrorCode::unreachable, "headgated does not run here", kStart);
  return *found;
}

Result<std::string> ask(const http::Endpoint& daemon, const std::string& method, const std::string& target,
                        const std::string& body, std::chrono::milliseconds patience) {
  auto reply = TRY(http::exchange(daemon, {.method = method, .target = target, .body = body}, patience));
  if (reply.status / 100 != 2) return std::unexpected(http::error_of(reply.status, reply.body));
  if (reply.body.ends_with('\n')) reply.body.pop_back();
  return std::move(reply.body);
}

}  // namespace headgate::cli
