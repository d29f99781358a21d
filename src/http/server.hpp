// An HTTP/1.1 server on a loop, over a Unix socket and, where asked, TCP. All members are for the loop's thread.
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
  std::size_t connections = 512;  // over Unix sockets, and 16 more for root and our own user
  // Over TCP the clients that have not shown what lets them in count as one user, and those that have as another. A
  // new client of the first kind takes the place of the one that has been silent for longest.
  std::size_t connections_per_uid = 128;
  // Whom a uid that connects over a Unix socket belongs to; unset: to itself. Called on the loop.
  std::function<uid_t(const Peer&)> user_of;
  // Whether a request over TCP shows what lets its client in. Unset: no request does.
  std::function<bool(const Request&)> shows_key;
  // What is slower is dropped.
  std::chrono::milliseconds head{
      5'000};  // from the first byte (of a new connection: from its accept) to the head's end
  std::chrono::milliseconds body{10'000};      // from the head's end to the body's
  std::chrono::milliseconds idle{60'000};      // between two requests
  std::chrono::milliseconds write{10'000};     // each 64 KiB of an answer, each batch of a stream
  std::chrono::milliseconds answer{60'000};    // a handler that has not answered: the client reads 503
  std::chrono::milliseconds heartbeat{1'000};  // a stream that was silent for so long writes a comment
  unsigned pool_threads = 2;
  // Over TCP a request is answered if its Host is one of these, localhost or an address (host_name.hpp), or if it has
  // none, as no browser's has; others read 403.
  std::vector<std::string> names;
};

struct UnixListener {
  std::string path;  // at most 107 bytes; a dead socket of that name is replaced, a live one is an error
  mode_t mode = 0660;
  std::optional<gid_t> group{};  // unset: the process's own
};

class Server {
 public:
  Server(Loop& loop, Router router, ServerLimits limits = {});
  ~Server();  // stop(), and waits for handlers on the pool

  Result<void> listen(const UnixListener& listener);
  // Binds our Unix sockets again whose file somebody has removed, so that they are found. Returns how many were.
  Result<std::size_t> listen_anew();
  // A numeric address; port 0 picks one. Returns the port.
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);
  // Closes listeners and connections, removes our socket file. Streams see on_close.
  void stop();
  // Ends every connection over TCP, whatever it is at: who was let in by what is no longer valid has to ask again.
  void hang_up_tcp();

  // Called with what ended a connection, or kept it from being accepted, that should not have: for the log.
  void tell_trouble(std::function<void(const std::string& what)> trouble);

  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::uint64_t refused() const;  // connections answered 503 for being too many

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::http
