#include "http/async_client.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "http/event_text.hpp"
#include "http/io.hpp"

namespace headgate::http {
namespace {

using boost::asio::awaitable;
using Protocol = boost::asio::generic::stream_protocol;
using std::chrono::milliseconds;

// One connection of ours. The coroutine keeps it; the Call that the caller holds only says that nobody listens any
// more.
struct Exchange : std::enable_shared_from_this<Exchange> {
  Exchange(Loop& loop, const Endpoint& to, const OutgoingRequest& request, std::uint64_t most_body_bytes)
      : endpoint(to),
        text(request_text(request, to.host_header(), false)),
        parser(request.method == "HEAD", most_body_bytes),
        socket(context_of(loop)),
        timer(context_of(loop)) {}

  Result<void> unreachable(const std::string& why) const {
    return fail(ErrorCode::unreachable, "the server at " + endpoint.text() + ": " + why);
  }

  void allow(milliseconds time) {
    const unsigned mine = ++round;
    timer.expires_after(time);
    timer.async_wait([self = shared_from_this(), mine](const boost::system::error_code& error) {
      if (error || self->round != mine) return;
      self->too_slow = true;
      boost::system::error_code ignored;
      self->socket.close(ignored);
    });
  }

  void end() {
    ++round;
    timer.cancel();
    boost::system::error_code ignored;
    socket.close(ignored);
  }

  Result<void> broken(const boost::system::error_code& error) const {
    return unreachable(too_slow ? "no answer in time" : error.message());
  }

  awaitable<Result<void>> ask() {
    const auto address = address_of(endpoint);
    if (!address) co_return std::unexpected(address.error());
    const Protocol::endpoint name(&address->storage, address->size);
    boost::system::error_code error;
    socket.open(Protocol(address->storage.ss_family, 0), error);
    if (error) co_return unreachable(error.message());
    const auto [connect_error] = co_await socket.async_connect(name, kAwait);
    if (connect_error) co_return broken(connect_error);
    const auto bytes = boost::asio::buffer(text);
    const auto [write_error, sent] = co_await boost::asio::async_write(socket, bytes, kAwait);
    // A server that refuses early has answered, and hung up: what it said is still to be read.
    if (write_error && write_error != boost::asio::error::broken_pipe) co_return broken(write_error);
    co_return Result<void>();
  }

  awaitable<Result<void>> read_more() {
    const auto room = boost::asio::buffer(inbox);
    const auto [error, bytes] = co_await socket.async_read_some(room, kAwait);
    if (error && error != boost::asio::error::eof) co_return broken(error);
    const auto fed = error ? parser.end() : parser.feed({inbox.data(), bytes});
    if (!fed) co_return unreachable(fed.error());
    co_return Result<void>();
  }

  const Endpoint endpoint;
  const std::string text;
  ResponseParser parser;
  Protocol::socket socket;
  boost::asio::steady_timer timer;
  unsigned round = 0;
  bool too_slow = false;
  bool abandoned = false;
  std::array<char, 16 << 10> inbox;
};

class Held : public Call {
 public:
  explicit Held(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Held() override {
    exchange_->abandoned = true;
    exchange_->end();
  }

 private:
  std::shared_ptr<Exchange> exchange_;
};

awaitable<Result<void>> read_whole(Exchange& exchange, milliseconds deadline) {
  exchange.allow(deadline);
  auto result = co_await exchange.ask();
  while (result && !exchange.parser.done()) result = co_await exchange.read_more();
  co_return result;
}

awaitable<void> run_exchange(std::shared_ptr<Exchange> exchange, milliseconds deadline,
                             std::function<void(Result<IncomingResponse>)> done) {
  // co_spawn() may run us inside the caller, who does not hold the Call yet.
  co_await boost::asio::post(exchange->socket.get_executor(), boost::asio::use_awaitable);
  if (exchange->abandoned) co_return;
  const auto result = co_await read_whole(*exchange, deadline);
  exchange->end();
  if (exchange->abandoned) co_return;
  if (result) {
    done(exchange->parser.take());
  } else {
    done(std::unexpected(result.error()));
  }
}

awaitable<Result<void>> read_head(Exchange& exchange, milliseconds deadline) {
  exchange.allow(deadline);
  auto result = co_await exchange.ask();
  while (result && !exchange.parser.head_done()) result = co_await exchange.read_more();
  if (!result || exchange.parser.status() == 200) co_return result;
  while (result && !exchange.parser.done()) result = co_await exchange.read_more();
  if (!result) co_return result;
  const IncomingResponse response = exchange.parser.take();
  co_return std::unexpected(error_of(response.status, response.body));
}

awaitable<Result<void>> read_events(Exchange& exchange, milliseconds silence, const Subscriber& subscriber) {
  EventReader reader;
  for (;;) {
    exchange.allow(silence);
    if (!reader.feed(exchange.parser.take_body_part())) co_return exchange.unreachable("an event that is too long");
    while (const auto event = reader.next()) {
      subscriber.event(*event);
      if (exchange.abandoned) co_return Result<void>();
    }
    if (exchange.parser.done()) co_return Result<void>();
    const auto result = co_await exchange.read_more();
    if (!result) co_return result;
  }
}

awaitable<void> run_subscription(std::shared_ptr<Exchange> exchange, milliseconds deadline, milliseconds silence,
                                 Subscriber subscriber) {
  co_await boost::asio::post(exchange->socket.get_executor(), boost::asio::use_awaitable);
  if (exchange->abandoned) co_return;
  auto result = co_await read_head(*exchange, deadline);
  if (result && !exchange->abandoned) {
    if (subscriber.opened) subscriber.opened();
    if (!exchange->abandoned) result = co_await read_events(*exchange, silence, subscriber);
  }
  exchange->end();
  if (!exchange->abandoned && subscriber.ended) subscriber.ended(result);
}

}  // namespace

std::unique_ptr<Call> exchange(Loop& loop, const Endpoint& endpoint, const OutgoingRequest& request,
                               milliseconds deadline, std::function<void(Result<IncomingResponse>)> done) {
  auto state = std::make_shared<Exchange>(loop, endpoint, request, 64 << 20);
  boost::asio::co_spawn(context_of(loop), run_exchange(state, deadline, std::move(done)), boost::asio::detached);
  return std::make_unique<Held>(std::move(state));
}

std::unique_ptr<Call> subscribe(Loop& loop, const Endpoint& endpoint, OutgoingRequest request, milliseconds deadline,
                                milliseconds silence, Subscriber subscriber) {
  request.headers.push_back({"Accept", "text/event-stream"});
  auto state = std::make_shared<Exchange>(loop, endpoint, request, 0);
  boost::asio::co_spawn(context_of(loop), run_subscription(state, deadline, silence, std::move(subscriber)),
                        boost::asio::detached);
  return std::make_unique<Held>(std::move(state));
}

}  // namespace headgate::http
