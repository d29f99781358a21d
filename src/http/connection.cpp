#include "http/connection.hpp"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "base/untrusted_socket.hpp"
#include "http/event_text.hpp"
#include "http/message.hpp"

namespace headgate::http {

using boost::asio::awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kMaxLinger = 2 << 20;  // unread bytes of a rejected request to drain before closing

Response no_place() {
  Response response = error_response(
      503, "busy", "this server has all the connections that it takes",
      "try again in a second; node.connections_per_user and node.connections of the configuration say how many");
  response.headers.push_back({"Retry-After", "1"});
  return response;
}

// A client may have left while its request was queued; then run nothing that waits or takes something for it.
void begin_answer(const Router::Route& route, const Request& request, const Reply& reply) {
  if (route.answers_later && !reply.waits()) return;
  try {
    route.handler(request, reply);
  } catch (const std::exception& error) {
    reply(error_response(500, "failed", std::string("the handler of this request failed: ") + error.what(),
                         "this is a defect of the server"));
  }
}

void post_turn(const std::shared_ptr<ServerState>& state);

void take_turn(const std::shared_ptr<ServerState>& state) {
  state->turn_posted = false;
  try {
    const auto work = state->waiting.next();
    if (!state->waiting.empty()) post_turn(state);
    if (work) (*work)();
  } catch (const std::exception&) {
    state->tell_trouble("a request was not answered: " + what_ended(std::current_exception()));
  }
}

void post_turn(const std::shared_ptr<ServerState>& state) {
  if (state->turn_posted) return;
  state->post([weak = std::weak_ptr(state)] {
    if (const auto still = weak.lock()) take_turn(still);
  });
  state->turn_posted = true;
}

// Releases shared objects even if the coroutine is destroyed while suspended, because the loop ended.
struct CloseStream {
  std::shared_ptr<EventStream> stream;
  ~CloseStream() {
    if (stream) stream->close();
  }
};
struct LetGo {
  std::shared_ptr<Reply::Slot> slot;
  ~LetGo() { slot->detach(); }
};

}  // namespace

void run_in_turn(const std::shared_ptr<ServerState>& state, uid_t uid, std::function<void()> work) {
  state->waiting.add(uid, std::move(work));
  post_turn(state);
}

void hang_up(Connection::Socket& socket) {
  boost::system::error_code ignored;
  if (socket.is_open()) close_deferred(UniqueFd(socket.release(ignored)));
}

Connection::Connection(std::shared_ptr<ServerState> state, Socket socket, Peer peer, bool refused)
    : state_(std::move(state)),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      refused_(refused),
      counted_as_(peer_.is_unix ? peer_.user.value_or(peer_.uid) : kUnknown),
      last_moment_(++state_->moments),
      parser_(state_->limits.codec),
      deadline_(socket_.get_executor()),
      wake_(socket_.get_executor()) {
  if (peer_.is_unix) refuse_descriptors(socket_.native_handle());
  state_->all.insert(this);
  if (refused_) {
    ++state_->lingering;
    ++state_->refused;
  } else {
    ++state_->per_uid[counted_as_];
  }
}

Connection::~Connection() {
  hang_up(socket_);
  state_->all.erase(this);
  if (refused_) {
    --state_->lingering;
  } else if (--state_->per_uid[counted_as_] == 0) {
    state_->per_uid.erase(counted_as_);
  }
}

void Connection::close() {
  gone_ = true;
  hang_up(socket_);
  wake_.cancel();
}

awaitable<void> Connection::serve(std::shared_ptr<Connection> self) {
  if (self->refused_) {
    self->keep_alive_ = false;
    (void)co_await self->write_response(no_place());
    co_await self->linger();
    co_return;
  }
  for (bool more = true; more;) {
    const Next next = co_await self->read_request();
    if (next == Next::gone) break;
    if (next == Next::refusal) {
      self->keep_alive_ = false;
      Response response = error_response(self->refusal_.status, "bad_request", self->refusal_.message,
                                         "accepted: HTTP/1.1 with a head and a body within the server's limits");
      const bool written = co_await self->write_response(std::move(response));
      if (written) co_await self->linger();
      break;
    }
    self->answering_ = true;
    more = co_await self->answer_request();
    self->answering_ = false;
    self->last_moment_ = ++self->state_->moments;
  }
  // A pending wait or timer may still own the connection, so close its socket here.
  self->deadline_.cancel();
  self->close();
}

awaitable<Connection::Next> Connection::read_request() {
  const auto& limits = state_->limits;
  enum class Stage { idle, head, body } stage = Stage::idle;
  allow(std::exchange(first_, false) ? limits.head : limits.idle);
  std::string_view fresh;
  for (;;) {
    // The last read or write may have succeeded just before the server was stopped.
    if (gone_) co_return Next::gone;
    const auto fed = parser_.feed(fresh);
    if (!fed) {
      refusal_ = fed.error();
      co_return Next::refusal;
    }
    if (parser_.done()) co_return Next::request;
    if (stage == Stage::idle && parser_.begun()) {
      stage = Stage::head;
      allow(limits.head);
    }
    if (stage == Stage::head && parser_.head_done()) {
      stage = Stage::body;
      if (parser_.expects_continue()) {
        const bool written = co_await write(kContinue);
        if (!written) co_return Next::gone;
      }
      allow(limits.body);
    }
    const ssize_t bytes = take();
    if (bytes == 0) co_return Next::gone;
    fresh = {inbox_.data(), static_cast<std::size_t>(std::max<ssize_t>(0, bytes))};
    if (bytes > 0) {
      // A client that sends without pause must still yield to others and to its deadlines.
      co_await boost::asio::post(socket_.get_executor(), boost::asio::use_awaitable);
      continue;
    }
    const auto [error] = co_await socket_.async_wait(Socket::wait_read, kAwait);
    if (error) co_return Next::gone;
  }
}

awaitable<bool> Connection::answer_request() {
  auto request = parser_.take();
  Response response;
  if (request) {
    method_ = request->method;
    http_1_0_ = request->http_1_0;
    keep_alive_ = request->keep_alive;
    response = co_await respond(std::move(*request));
  } else {
    keep_alive_ = false;
    response =
        error_response(request.error().status, "bad_request", request.error().message,
                       "accepted: /path?name=value, other bytes percent-escaped; http://HOST may stand before it");
  }
  const bool written = co_await write_response(std::move(response));
  co_return written&& keep_alive_;
}

bool Connection::admit(const Request& request) {
  const auto& shows_key = state_->limits.shows_key;
  if (counted_as_ != kUnknown || peer_.is_unix || !shows_key || !shows_key(request)) return true;
  std::size_t& admitted = state_->per_uid[kAdmitted];
  if (admitted >= state_->limits.connections_per_uid) return false;
  ++admitted;
  if (--state_->per_uid[kUnknown] == 0) state_->per_uid.erase(kUnknown);
  counted_as_ = kAdmitted;
  return true;
}

awaitable<Response> Connection::respond(Request request) {
  request.peer = peer_;
  if (const std::string* host = find(request.headers, "Host");
      host != nullptr && !peer_.is_unix && !is_own_name(*host, state_->limits.names)) {
    co_return error_response(403, "denied",
                             "this request is for '" + host->substr(0, 80) + "', which is no name of ours",
                             "ask by address or as localhost, or name this machine in node.names of the configuration");
  }
  if (!admit(request)) {
    keep_alive_ = false;
    co_return no_place();
  }
  auto found = state_->router.find(request);
  if (auto* response = std::get_if<Response>(&found)) co_return std::move(*response);
  const Router::Route* route = std::get<const Router::Route*>(found);
  auto slot = std::make_shared<Reply::Slot>(waker());
  std::function<void()> work = [route, request = std::move(request), reply = Reply(slot)] {
    begin_answer(*route, request, reply);
  };
  if (route->runs == Runs::on_pool) state_->run_on_pool(counted_as_, std::move(work));
  else run_in_turn(state_, counted_as_, std::move(work));
  co_return co_await wait_for(std::move(slot), route->answers_later);
}

awaitable<Response> Connection::wait_for(std::shared_ptr<Reply::Slot> slot, bool watched) {
  const LetGo let_go{slot};
  const auto end = Clock::now() + state_->limits.answer;
  ++deadline_round_;  // the deadline must not cover the handler
  for (;;) {
    if (auto response = slot->take()) {
      end_watch();
      co_return std::move(*response);
    }
    if (gone_) {
      slot->client_gone();
      co_return Response{};
    }
    if (Clock::now() >= end) {
      slot->client_gone();
      end_watch();
      co_return error_response(503, "timeout", "the server found no answer in time", "try again later");
    }
    if (watched) watch_for_hangup();
    co_await sleep_until(end);
  }
}

awaitable<bool> Connection::write_response(Response response) {
  const CloseStream close_stream{response.stream};
  if (gone_) co_return false;
  Framing framing;
  const bool head_only = method_ == "HEAD";
  if (response.stream) {
    framing.body = http_1_0_ ? Framing::Body::until_close : Framing::Body::chunked;
    keep_alive_ = keep_alive_ && !http_1_0_;
    response.content_type = "text/event-stream";
    response.headers.push_back({"Cache-Control", "no-store"});
  }
  framing.keep_alive = keep_alive_;
  std::string text = response_head(response, framing);
  if (!response.stream) {
    if (!head_only) text += response.body;
    co_return co_await write(text);
  }
  bool whole = co_await write(text);
  if (whole && !head_only) whole = co_await pump(*response.stream, !http_1_0_);
  co_return whole;
}

awaitable<bool> Connection::pump(EventStream& stream, bool chunked) {
  stream.attach(waker());
  for (;;) {
    EventStream::Batch batch = stream.take();
    if (batch.overflowed || gone_) co_return false;
    if (batch.text.empty() && !batch.finished) {
      const auto beat = Clock::now() + state_->limits.heartbeat;
      watch_for_hangup();
      co_await sleep_until(beat);
      if (gone_) co_return false;
      if (Clock::now() < beat) continue;
      batch.text = kHeartbeat;
    }
    if (!batch.text.empty()) {
      const std::string framed = chunked ? chunk(batch.text) : std::move(batch.text);
      const bool written = co_await write(framed);
      if (!written) co_return false;
    }
    if (batch.finished) {
      end_watch();
      if (chunked) co_return co_await write(kLastChunk);
      co_return true;
    }
  }
}

ssize_t Connection::take() {
  const ssize_t bytes = gone_ ? 0 : receive_bytes(socket_.native_handle(), inbox_.data(), inbox_.size());
  return bytes >= 0 ? bytes : errno == EAGAIN || errno == EINTR ? -1 : 0;
}

awaitable<bool> Connection::write(std::string_view text) {
  while (!text.empty()) {
    const auto piece = boost::asio::buffer(text.substr(0, kPiece));
    allow(state_->limits.write);
    const auto [error, bytes] = co_await boost::asio::async_write(socket_, piece, kAwait);
    if (error) co_return false;
    text.remove_prefix(bytes);
  }
  ++deadline_round_;
  co_return true;
}

// Closing with unread bytes resets a TCP connection, and the client would lose the reply that explains why.
awaitable<void> Connection::linger() {
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  allow(std::chrono::seconds(1));
  for (std::size_t read = 0; read < kMaxLinger;) {
    const ssize_t bytes = take();
    if (bytes == 0) break;
    read += static_cast<std::size_t>(std::max<ssize_t>(0, bytes));
    if (bytes > 0) continue;
    const auto [error] = co_await socket_.async_wait(Socket::wait_read, kAwait);
    if (error) break;
  }
  deadline_.cancel();
  close();
}

void Connection::allow(std::chrono::milliseconds time) {
  const unsigned round = ++deadline_round_;
  deadline_.expires_after(time);
  deadline_.async_wait([self = shared_from_this(), round](const boost::system::error_code& error) {
    if (!error && self->deadline_round_ == round) self->close();
  });
}

awaitable<void> Connection::sleep_until(Clock::time_point end) {
  wake_.expires_at(end);
  (void)co_await wake_.async_wait(kAwait);
}

std::function<void()> Connection::waker() {
  return [weak = weak_from_this(), executor = socket_.get_executor()] {
    boost::asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->wake_.cancel();
    });
  };
}

// No read is pending while a reply is awaited, so a closed connection would only be noticed at the first write.
void Connection::watch_for_hangup() {
  if (watching_ || !socket_.is_open()) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    if (error) {
      self->watching_ = false;
      return;
    }
    char byte = 0;
    const auto peeked = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    // The next request came early. Leave it unread, and keep `watching_` set: a new wait would end at once.
    if (peeked > 0) return;
    self->watching_ = false;
    // A readiness notification may be stale, if the bytes were read after it was queued.
    if (peeked < 0 && (errno == EAGAIN || errno == EINTR)) return self->watch_for_hangup();
    self->gone_ = true;
    self->wake_.cancel();
  });
}

void Connection::end_watch() {
  if (!watching_) return;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
  watching_ = false;
}

}  // namespace headgate::http
