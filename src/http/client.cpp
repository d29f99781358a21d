#include "http/client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace headgate::http {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::unexpected<Error> unreachable(const Endpoint& endpoint, const std::string& why, std::string hint = {}) {
  return fail(ErrorCode::unreachable, "the server at " + endpoint.text() + ": " + why, std::move(hint));
}

// A connected socket and its deadline.
struct Wire {
  Endpoint endpoint;
  UniqueFd fd;
  Clock::time_point end;

  Result<void> wait(short events) const {
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
      if (left <= 0)
        return unreachable(endpoint, "no answer in time",
                           "it runs and is busy, or its disk or the driver hangs: see its log");
      pollfd watched{.fd = fd.get(), .events = events, .revents = 0};
      const int ready = ::poll(&watched, 1, static_cast<int>(std::min<decltype(left)>(left, INT_MAX)));
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return fail_errno("poll", errno);
    }
  }

  Result<void> connect() {
    const auto address = TRY(address_of(endpoint));
    fd = UniqueFd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return fail_errno("socket", errno);
    const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
    while (::connect(fd.get(), name, address.size) != 0) {
      int error = errno;
      if (error == EINTR) continue;
      if (error == EAGAIN) {
        // EAGAIN: the Unix socket's backlog is full, and poll() cannot wait for that.
        if (Clock::now() >= end)
          return unreachable(endpoint, "its backlog is full", "too many ask at once; try again in a second");
        ::poll(nullptr, 0, 5);
        continue;
      }
      if (error == EINPROGRESS) {
        TRY(wait(POLLOUT));
        socklen_t size = sizeof error;
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0) return {};
      }
      if (error == EACCES || error == EPERM) return fail_errno("connecting to " + endpoint.text(), error);
      return unreachable(endpoint, std::strerror(error), "is it running?");
    }
    return {};
  }

  Result<void> send(std::string_view text) const {
    while (!text.empty()) {
      const auto sent = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN) {
        TRY(wait(POLLOUT));
      } else if (errno == EPIPE || errno == ECONNRESET) {
        return {};  // the server may have refused early: its reply can still be read
      } else if (errno != EINTR) {
        return unreachable(endpoint, std::strerror(errno));
      }
    }
    return {};
  }

  // Returns 0 if the server closed the connection.
  Result<std::size_t> receive(std::array<char, 16 << 10>& room) const {
    for (;;) {
      const auto got = ::recv(fd.get(), room.data(), room.size(), 0);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno == EAGAIN) {
        TRY(wait(POLLIN));
      } else if (errno != EINTR) {
        return unreachable(endpoint, std::strerror(errno));
      }
    }
  }
};

// Reads until `enough` returns true or the connection ends.
template <typename Enough>
Result<void> read_until(const Wire& wire, ResponseParser& parser, Enough enough) {
  std::array<char, 16 << 10> room;
  while (!enough()) {
    const std::size_t got = TRY(wire.receive(room));
    const auto fed = got > 0 ? parser.feed({room.data(), got}) : parser.end();
    if (!fed) return unreachable(wire.endpoint, fed.error());
  }
  return {};
}

Result<Wire> ask(const Endpoint& endpoint, const OutgoingRequest& request, milliseconds deadline) {
  Wire wire{endpoint, UniqueFd(), Clock::now() + deadline};
  TRY(wire.connect());
  TRY(wire.send(request_text(request, endpoint.host_header(), false)));
  return wire;
}

}  // namespace

Result<IncomingResponse> exchange(const Endpoint& endpoint, const OutgoingRequest& request, milliseconds deadline) {
  const Wire wire = TRY(ask(endpoint, request, deadline));
  ResponseParser parser(request.method == "HEAD");
  TRY(read_until(wire, parser, [&] { return parser.done(); }));
  return parser.take();
}

int try_to_connect(const Endpoint& endpoint) {
  const auto address = address_of(endpoint);
  if (!address) return ENOENT;
  const UniqueFd fd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->size) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;  // its backlog is full: a server has it open
}

struct EventSource::Impl {
  explicit Impl(Wire connected) : wire(std::move(connected)) {}
  Wire wire;
  ResponseParser parser{false, 0};
  EventReader reader;
};

EventSource::EventSource(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventSource::EventSource(EventSource&&) noexcept = default;
EventSource& EventSource::operator=(EventSource&&) noexcept = default;
EventSource::~EventSource() = default;

Result<EventSource> EventSource::open(const Endpoint& endpoint, OutgoingRequest request, milliseconds deadline) {
  request.headers.push_back({"Accept", "text/event-stream"});
  auto impl = std::make_unique<Impl>(TRY(ask(endpoint, request, deadline)));
  ResponseParser& parser = impl->parser;
  TRY(read_until(impl->wire, parser, [&] { return parser.head_done(); }));
  if (parser.status() != 200) {
    TRY(read_until(impl->wire, parser, [&] { return parser.done(); }));
    const IncomingResponse response = parser.take();
    return std::unexpected(error_of(response.status, response.body));
  }
  return EventSource(std::move(impl));
}

Result<std::optional<Event>> EventSource::next(milliseconds silence) {
  std::array<char, 16 << 10> room;
  for (;;) {
    if (!impl_->reader.feed(impl_->parser.take_body_part())) {
      return unreachable(impl_->wire.endpoint, "it sent an event that is too long");
    }
    if (auto event = impl_->reader.next()) return event;
    if (impl_->parser.done()) return std::optional<Event>();
    impl_->wire.end = Clock::now() + silence;
    const std::size_t got = TRY(impl_->wire.receive(room));
    const auto fed = got > 0 ? impl_->parser.feed({room.data(), got}) : impl_->parser.end();
    if (!fed) return unreachable(impl_->wire.endpoint, fed.error());
  }
}

}  // namespace headgate::http
