// An HTTP/1.1 server on a loop, over a Unix socket and optionally TCP. All members are for the loop's thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/codec.hpp"
#include "http/loop.hpp"
#include "http/router.hpp"

namespace headgate::http {

struct ServerLimits {
  CodecLimits codec;
  std::size_t connections = 512;  // over Unix sockets, plus 16 for root and our own user
  // TCP clients without the key count as one user, those with it as another. A new client of the first kind replaces
  // the one that was silent longest.
  std::size_t connections_per_uid = 128;
  // Returns the user that a Unix peer's uid belongs to; if unset, the uid itself. Called on the loop.
  std::function<uid_t(const Peer&)> user_of;
  // Returns true if a TCP request shows the key that admits its client. If unset, none does.
  std::function<bool(const Request&)> shows_key;
  // Slower clients are dropped.
  std::chrono::milliseconds head{
      5'000};  // from the first byte (on a new connection: from accept) to the end of the head
  std::chrono::milliseconds body{10'000};      // from the end of the head to the end of the body
  std::chrono::milliseconds idle{60'000};      // between two requests
  std::chrono::milliseconds write{10'000};     // for each 64 KiB of a response and each batch of a stream
  std::chrono::milliseconds answer{60'000};    // for the handler; then the client gets 503
  std::chrono::milliseconds heartbeat{1'000};  // after this long without events, a stream sends a comment
  unsigned pool_threads = 2;
  // TCP requests are answered if their Host is one of these names, localhost, an address (message.hpp) or absent,
  // which it never is in a browser's request; others get 403.
  std::vector<std::string> names;
};

struct UnixListener {
  std::string path;  // at most 107 bytes; a dead socket there is replaced, a live one is an error
  mode_t mode = 0660;
  std::optional<gid_t> group{};  // unset: the process's group
};

class Server {
 public:
  Server(Loop& loop, Router router, ServerLimits limits = {});
  ~Server();  // calls stop(), and waits for handlers on the pool

  Result<void> listen(const UnixListener& listener);
  // Binds Unix sockets again if their file has been removed. Returns how many.
  Result<std::size_t> listen_anew();
  // Listens on a numeric address; port 0 picks a free port. Returns the port.
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);
  // Closes listeners and connections, removes our socket files. Streams see on_close.
  void stop();
  // Closes all TCP connections, so that clients must authenticate again after the key has changed.
  void hang_up_tcp();

  // Sets a callback for unexpected failures of a connection or of an accept, for the log.
  void tell_trouble(std::function<void(const std::string& what)> trouble);

  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::uint64_t refused() const;  // connections answered with 503 because there were too many

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::http
