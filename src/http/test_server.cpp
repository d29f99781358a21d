#include "http/test_server.hpp"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace headgate::http {

bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

ServerLimits patient() {
  ServerLimits limits;
  limits.head = limits.body = limits.idle = limits.write = 60s;
  return limits;
}

TestServer::TestServer(Router router, ServerLimits limits)
    : TestServer(std::function<Router(Loop&)>([&](Loop&) { return std::move(router); }), limits) {}

TestServer::TestServer(const std::function<Router(Loop&)>& make, ServerLimits limits) {
  std::string name = (std::filesystem::temp_directory_path() / "headgate-http.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  folder_ = name;
  const auto port = thread_.on_loop([&]() -> Result<std::uint16_t> {
    server_ = std::make_unique<Server>(thread_.loop(), make(thread_.loop()), limits);
    if (auto listening = server_->listen(UnixListener{.path = folder_ + "/s"}); !listening) {
      return std::unexpected(listening.error());
    }
    return server_->listen("127.0.0.1", 0);
  });
  if (!port) {
    std::fprintf(stderr, "%s\n", port.error().message.c_str());
    std::abort();
  }
  port_ = *port;
}

TestServer::~TestServer() {
  thread_.on_loop([&] { server_.reset(); });
  std::filesystem::remove_all(folder_);
}

std::size_t TestServer::connections() {
  return thread_.on_loop([&] { return server_->connections(); });
}

RawClient::RawClient(const Endpoint& endpoint) {
  const auto address = address_of(endpoint);
  if (!address) return;
  fd_ = UniqueFd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->size) == 0;
}

bool RawClient::send(std::string_view text) {
  while (!text.empty()) {
    pollfd watched{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&watched, 1, 20'000) <= 0) return false;
    const auto sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawClient::half_close() { ::shutdown(fd_.get(), SHUT_WR); }

std::string RawClient::read(const std::function<bool(const std::string&)>& enough) {
  std::string all;
  char room[4096];
  const auto end = std::chrono::steady_clock::now() + 120s;
  while (!enough(all) && std::chrono::steady_clock::now() < end) {
    pollfd watched{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&watched, 1, 20'000) <= 0) break;
    const auto got = ::recv(fd_.get(), room, sizeof room, 0);
    if (got <= 0) {
      hung_up_ = true;
      break;
    }
    all.append(room, static_cast<std::size_t>(got));
  }
  return all;
}

}  // namespace headgate::http
