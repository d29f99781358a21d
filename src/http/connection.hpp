// One client of a server: socket, deadline, the request being received, and the response.
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <set>

#include "base/round_robin_queue.hpp"
#include "http/io.hpp"
#include "http/server.hpp"

namespace headgate::http {

class Connection;

// State shared by a server's connections, which keep it alive together with the coroutines.
struct ServerState {
  Router router;
  ServerLimits limits;
  std::function<void(uid_t, std::function<void()>)> run_on_pool;  // round robin over users
  std::function<void(std::function<void()>)> post;
  RoundRobinQueue<std::function<void()>> waiting;  // requests to run on the loop
  bool turn_posted = false;
  std::set<Connection*> all;
  std::map<uid_t, std::size_t> per_uid;  // kUnknown and kAdmitted count TCP clients
  std::uint64_t moments = 0;             // counts accepted clients and answered requests
  std::size_t lingering = 0;             // refused and not yet closed; not counted as connections
  std::uint64_t refused = 0;
  std::function<void(const std::string& what)> trouble;

  void tell_trouble(const std::string& what) const {
    if (trouble) trouble(what);
  }
};

// Stand in for a uid over TCP: before and after the client has shown its key.
inline constexpr uid_t kUnknown = static_cast<uid_t>(-1);
inline constexpr uid_t kAdmitted = static_cast<uid_t>(-2);

// Runs `work` on the loop when its user's turn comes, one request at a time, with other events in between. Many slow
// requests of one user (the store writes to disk) delay neither other users nor the loop's sockets.
void run_in_turn(const std::shared_ptr<ServerState>& state, uid_t uid, std::function<void()> work);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(std::shared_ptr<ServerState> state, Socket socket, Peer peer, bool refused);
  ~Connection();

  // Runs the connection's whole life; `self` keeps it alive.
  static boost::asio::awaitable<void> serve(std::shared_ptr<Connection> self);
  void close();
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] bool gone() const { return gone_; }
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] uid_t counted_as() const { return counted_as_; }
  [[nodiscard]] bool is_silent() const { return !answering_; }
  // Returns ServerState::moments at its accept or at its last response.
  [[nodiscard]] std::uint64_t last_moment() const { return last_moment_; }

 private:
  // Returns false if there is no room among the admitted clients.
  [[nodiscard]] bool admit(const Request& request);
  enum class Next { request, refusal, gone };
  boost::asio::awaitable<Next> read_request();
  boost::asio::awaitable<bool> answer_request();
  boost::asio::awaitable<Response> respond(Request request);
  // `watched`: end of input counts as a disconnect. Set for requests that wait, which must not wait for departed
  // clients. Otherwise a client that closed only its sending side still gets its response.
  boost::asio::awaitable<Response> wait_for(std::shared_ptr<Reply::Slot> slot, bool watched);
  boost::asio::awaitable<bool> write_response(Response response);
  boost::asio::awaitable<bool> pump(EventStream& stream, bool chunked);
  ssize_t take();  // reads into inbox_; 0: closed by the client, or descriptors were sent; -1: would block
  boost::asio::awaitable<bool> write(std::string_view text);
  boost::asio::awaitable<void> linger();

  // Closes the socket after this time, unless it is called again before.
  void allow(std::chrono::milliseconds time);
  boost::asio::awaitable<void> sleep_until(std::chrono::steady_clock::time_point end);
  std::function<void()> waker();  // wakes sleep_until(); any thread, even after the connection has ended
  void watch_for_hangup();
  void end_watch();

  std::shared_ptr<ServerState> state_;
  Socket socket_;
  Peer peer_;
  const bool refused_;
  uid_t counted_as_;
  bool answering_ = false;
  std::uint64_t last_moment_;
  RequestParser parser_;
  Refusal refusal_;
  std::string method_;      // of the current request
  bool http_1_0_ = false;   // of the current request
  bool keep_alive_ = true;  // after the current request
  bool first_ = true;       // no request yet on this connection
  bool watching_ = false;
  bool gone_ = false;
  boost::asio::steady_timer deadline_;
  unsigned deadline_round_ = 0;
  boost::asio::steady_timer wake_;
  std::array<char, 16 << 10> inbox_;
};

// Shuts down and closes the socket, so that pending waits end. Never blocks, whatever lies unread in it.
void hang_up(Connection::Socket& socket);

}  // namespace headgate::http
