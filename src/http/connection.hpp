// One client of a server: its socket, its deadline, the request it is sending, and the answer it is owed.
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

// What the connections of one server share. Connections and coroutines keep it alive.
struct ServerState {
  Router router;
  ServerLimits limits;
  std::function<void(uid_t, std::function<void()>)> run_on_pool;  // users in turn
  std::function<void(std::function<void()>)> post;
  RoundRobinQueue<std::function<void()>> waiting;  // for the loop
  bool turn_posted = false;
  std::set<Connection*> all;
  std::map<uid_t, std::size_t> per_uid;  // kUnknown and kAdmitted: those over TCP
  std::uint64_t moments = 0;             // counts accepted clients and answered requests
  std::size_t lingering = 0;             // refused and not yet gone; counted apart
  std::uint64_t refused = 0;
  std::function<void(const std::string& what)> trouble;

  void tell_trouble(const std::string& what) const {
    if (trouble) trouble(what);
  }
};

// In place of a uid, over TCP: before and after the client has shown what lets it in.
inline constexpr uid_t kUnknown = static_cast<uid_t>(-1);
inline constexpr uid_t kAdmitted = static_cast<uid_t>(-2);

// Runs `work` on the loop, when it is its user's turn: one request at a time, and whatever else is ready in between.
// Many requests of one user, each of which takes a while (the store writes to a disk), keep neither others nor the
// loop's other sockets waiting.
void run_in_turn(const std::shared_ptr<ServerState>& state, uid_t uid, std::function<void()> work);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(std::shared_ptr<ServerState> state, Socket socket, Peer peer, bool refused);
  ~Connection();

  // The whole life; `self` keeps the connection.
  static boost::asio::awaitable<void> serve(std::shared_ptr<Connection> self);
  void close();
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] bool gone() const { return gone_; }
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] uid_t counted_as() const { return counted_as_; }
  [[nodiscard]] bool is_silent() const { return !answering_; }
  // ServerState::moments when it was accepted, or its last request was answered.
  [[nodiscard]] std::uint64_t last_moment() const { return last_moment_; }

 private:
  // False: there is no place among those that may come in.
  [[nodiscard]] bool admit(const Request& request);
  enum class Next { request, refusal, gone };
  boost::asio::awaitable<Next> read_request();
  boost::asio::awaitable<bool> answer_request();
  boost::asio::awaitable<Response> respond(Request request);
  // `watched`: a client that sends no more is taken for gone. Whoever closes only his side of the connection still
  // reads, and gets an answer that does not take long; what waits must not wait for those who went.
  boost::asio::awaitable<Response> wait_for(std::shared_ptr<Reply::Slot> slot, bool watched);
  boost::asio::awaitable<bool> write_response(Response response);
  boost::asio::awaitable<bool> pump(EventStream& stream, bool chunked);
  ssize_t take();  // bytes that came, into inbox_; 0: the client has gone, or sent what nobody takes; -1: nothing yet
  boost::asio::awaitable<bool> write(std::string_view text);
  boost::asio::awaitable<void> linger();

  // The socket is closed when the time is over, unless it is set again before.
  void allow(std::chrono::milliseconds time);
  boost::asio::awaitable<void> sleep_until(std::chrono::steady_clock::time_point end);
  std::function<void()> waker();  // ends sleep_until(); from any thread, also when we are gone
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
  std::string method_;      // of the request being answered
  bool http_1_0_ = false;   // likewise
  bool keep_alive_ = true;  // after it
  bool first_ = true;       // no request has come on this connection yet
  bool watching_ = false;
  bool gone_ = false;
  boost::asio::steady_timer deadline_;
  unsigned deadline_round_ = 0;
  boost::asio::steady_timer wake_;
  std::array<char, 16 << 10> inbox_;
};

// Whoever waits on it hears that it ended. Never waits, whatever lies unread in it.
void hang_up(Connection::Socket& socket);

}  // namespace headgate::http
