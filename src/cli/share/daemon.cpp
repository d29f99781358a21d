#include "cli/share/daemon.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "base/unique_fd.hpp"
#include "base/user_name.hpp"
#include "cli/term/output.hpp"
#include "http/client.hpp"
#include "install/paths.hpp"

namespace headgate::cli {
namespace {

constexpr const char* kHowToStart =
    "start it: sudo systemctl start headgated, or as yourself: headgated (with a simulated GPU: headgated --sim)";

Result<void> answers(const http::Endpoint& endpoint) {
  TRY(http::exchange(endpoint, {.target = "/healthz"}, std::chrono::milliseconds(2'000)));
  return {};
}

// Stats the socket, or the nearest directory above it that is accessible.
std::optional<struct stat> nearest_facts(const std::string& socket) {
  struct stat facts{};
  for (std::string path = socket; path.size() > 1; path.resize(path.rfind('/'))) {
    if (::stat(path.c_str(), &facts) == 0) return facts;
    if (errno != EACCES || !path.contains('/')) break;
  }
  return std::nullopt;
}

// A daemon is there but refuses us: running without it would bypass it.
std::unexpected<Error> not_allowed(const std::string& socket) {
  if (const auto facts = nearest_facts(socket); facts && facts->st_uid != 0 && facts->st_uid != ::geteuid())
    return fail(ErrorCode::denied,
                "headgated at " + harmless(socket) + " serves " + user_name(facts->st_uid) + " alone",
                "start one of your own: headgated (with a simulated GPU: headgated --sim)");
  return fail(ErrorCode::denied, "you may not open headgated's control socket " + harmless(socket),
              "as an administrator: " + how_to_join(group_of_socket(socket)) +
                  ", and a new login; or "
                  "node.callers = \"all\" in its configuration, which lets everybody see and use his own shares");
}

}  // namespace

std::optional<std::uint32_t> group_of_socket(const std::string& socket) {
  const auto facts = nearest_facts(socket);
  return facts ? std::optional<std::uint32_t>(facts->st_gid) : std::nullopt;
}

std::string how_to_join(std::optional<std::uint32_t> group) {
  return group.value_or(0) == 0 ? "name a group for its administrators, not root's: node.group in its configuration"
                                : "usermod -aG " + group_name(*group) + " " + user_name(::geteuid());
}

Result<std::optional<http::Endpoint>> find_daemon() {
  if (const std::string given = install::environment("HEADGATE_SOCKET"); !given.empty()) {
    auto endpoint = http::parse_endpoint(given);
    if (!endpoint)
      return fail(ErrorCode::usage,
                  "the environment variable HEADGATE_SOCKET='" + harmless(given) + "': " + endpoint.error().message,
                  endpoint.error().hint);
    const auto answered = answers(*endpoint);
    if (!answered && answered.error().code == ErrorCode::denied) return not_allowed(given);
    if (!answered) {
      const auto left_behind = socket_left_behind();
      return fail(ErrorCode::unreachable,
                  "no headgated answers at HEADGATE_SOCKET='" + harmless(given) + "'" +
                      (left_behind ? ": " + silence_at(*left_behind).message : ""),
                  left_behind ? silence_at(*left_behind).hint : kHowToStart);
    }
    return *endpoint;
  }
  std::optional<std::string> shut;
  for (const std::string& path : daemon_sockets()) {
    const http::Endpoint endpoint{.path = path};
    const auto answered = answers(endpoint);
    if (answered) return endpoint;
    if (!shut && answered.error().code == ErrorCode::denied) shut = path;
  }
  if (shut) return not_allowed(*shut);
  return std::nullopt;
}

std::optional<std::string> socket_left_behind() {
  std::vector<std::string> places = daemon_sockets();
  if (const std::string given = install::environment("HEADGATE_SOCKET"); !given.empty()) {
    const auto endpoint = http::parse_endpoint(given);
    places = {endpoint ? endpoint->path : ""};
  }
  for (const std::string& path : places) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode)) return path;
  }
  return std::nullopt;
}

pid_t pid_of(const http::Endpoint& daemon) {
  const auto address = http::address_of(daemon);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool told = !daemon.path.empty() && address &&
                    ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->size) == 0 &&
                    ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return told ? peer.pid : 0;
}

Error silence_at(const std::string& socket) {
  if (http::try_to_connect({.path = socket}) == 0)
    return {ErrorCode::unreachable,
            "headgated at " + harmless(socket) + " does not answer within 2 s: it is stopped, or hangs",
            "journalctl -u headgated; systemctl restart headgated (running programs go on)"};
  return {ErrorCode::unreachable, "headgated has ended: no process listens at its socket " + harmless(socket),
          kHowToStart};
}

Result<std::optional<http::Endpoint>> await_daemon() {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::seconds(3);
  for (bool told = false;; told = true) {
    auto found = find_daemon();
    const bool silent = found ? !*found : found.error().code == ErrorCode::unreachable;
    const auto left_behind = silent ? socket_left_behind() : std::nullopt;
    if (!left_behind) return found;
    if (Clock::now() >= until) return found;
    if (!told) say("headgated does not answer at " + harmless(*left_behind) + ": waiting 3 s for it");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::optional<std::string> pages_beside_named_socket() {
  const auto endpoint = http::parse_endpoint(install::environment("HEADGATE_SOCKET"));
  if (!endpoint || endpoint->path.empty()) return std::nullopt;
  // RUNTIME/control/headgate.sock
  const auto runtime = std::filesystem::path(endpoint->path).parent_path().parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(runtime / "shares", ignored)) return std::nullopt;
  return runtime.string();
}

std::vector<std::string> daemon_sockets() {
  return {install::runtime_dir().value_or("") + "/control/headgate.sock", "/run/headgate/control/headgate.sock"};
}

Result<http::Endpoint> need_daemon() {
  const auto found = TRY(find_daemon());
  if (found) return *found;
  if (const auto left_behind = socket_left_behind()) return std::unexpected(silence_at(*left_behind));
  return fail(ErrorCode::unreachable, "headgated does not run here", kHowToStart);
}

Result<std::string> ask(const http::Endpoint& daemon, const std::string& method, const std::string& target,
                        const std::string& body, std::chrono::milliseconds patience) {
  auto reply = TRY(http::exchange(daemon, {.method = method, .target = target, .body = body}, patience));
  if (reply.status / 100 != 2) return std::unexpected(http::error_of(reply.status, reply.body));
  if (reply.body.ends_with('\n')) reply.body.pop_back();
  return std::move(reply.body);
}

}  // namespace headgate::cli
