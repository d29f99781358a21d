#include "http/server.hpp"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <mutex>

#include "base/round_robin_queue.hpp"
#include "base/untrusted_socket.hpp"
#include "http/connection.hpp"
#include "http/listen.hpp"

namespace headgate::http {

using Stream = boost::asio::generic::stream_protocol;
using Acceptor = boost::asio::basic_socket_acceptor<Stream>;

namespace {

constexpr std::size_t kMaxLingering = 256;

// Reserved for root and the server's own user, so that other users cannot lock out its administrators together.
constexpr std::size_t kKeptForOurs = 16;

std::size_t count_of(const ServerState& state, uid_t uid) {
  const auto found = state.per_uid.find(uid);
  return found == state.per_uid.end() ? 0 : found->second;
}

bool takes_one_more_user(const ServerState& state, uid_t uid) {
  const std::size_t kept = uid == 0 || uid == ::geteuid() ? kKeptForOurs : 0;
  const std::size_t over_tcp = count_of(state, kUnknown) + count_of(state, kAdmitted);
  return state.all.size() - state.lingering - over_tcp < state.limits.connections + kept &&
         count_of(state, uid) < state.limits.connections_per_uid;
}

// Makes room for a new TCP client that has not shown its key, by closing the one that was silent longest. A client that
// is being answered is closed only if a key is required: then its replies are refusals, which it may read slowly on
// purpose.
bool takes_one_more_unknown(const ServerState& state) {
  std::size_t unknown = 0;
  Connection* silent = nullptr;
  Connection* oldest = nullptr;
  const auto older = [](Connection* a, Connection* b) { return b == nullptr || a->last_moment() < b->last_moment(); };
  for (Connection* one : state.all) {
    if (one->counted_as() != kUnknown || one->peer().is_unix || one->refused() || one->gone()) continue;
    ++unknown;
    if (one->is_silent() && older(one, silent)) silent = one;
    if (older(one, oldest)) oldest = one;
  }
  if (unknown < state.limits.connections_per_uid) return true;
  Connection* const leaves = silent != nullptr || !state.limits.shows_key ? silent : oldest;
  if (leaves == nullptr) return false;
  leaves->close();
  return true;
}

constexpr std::chrono::milliseconds kAcceptPause{100};

void serve(const std::shared_ptr<ServerState>& state, std::shared_ptr<Connection> connection,
           const Acceptor::executor_type& executor) {
  boost::asio::co_spawn(executor, Connection::serve(connection), [state, connection](const std::exception_ptr& thrown) {
    if (!thrown) return;
    state->tell_trouble("a connection was given up: " + what_ended(thrown));
    connection->close();
  });
}

boost::asio::awaitable<void> accept_all(std::shared_ptr<ServerState> state, std::shared_ptr<Acceptor> acceptor,
                                        std::chrono::milliseconds after) {
  boost::asio::steady_timer pause(acceptor->get_executor(), after);
  (void)co_await pause.async_wait(kAwait);
  for (;;) {
    Stream::socket socket(acceptor->get_executor());
    const auto [error] = co_await acceptor->async_accept(socket, kAwait);
    if (!acceptor->is_open()) co_return;
    if (error) {
      // Probably out of descriptors: the pending connection stays in the backlog and would be reported again at once.
      pause.expires_after(kAcceptPause);
      (void)co_await pause.async_wait(kAwait);
      continue;
    }
    Peer peer = peer_of(socket.native_handle());
    if (peer.is_unix) peer.user = state->limits.user_of ? state->limits.user_of(peer) : peer.uid;
    const bool refused = peer.is_unix ? !takes_one_more_user(*state, *peer.user) : !takes_one_more_unknown(*state);
    if (refused && state->lingering >= kMaxLingering) {
      ++state->refused;
      hang_up(socket);
      continue;
    }
    serve(state, std::make_shared<Connection>(state, std::move(socket), std::move(peer), refused),
          acceptor->get_executor());
  }
}

// Keeps accepting until the acceptor is closed: one connection's failure (mostly out of memory) must not affect others.
void keep_accepting(std::shared_ptr<ServerState> state, std::shared_ptr<Acceptor> acceptor,
                    std::chrono::milliseconds after) {
  boost::asio::co_spawn(acceptor->get_executor(), accept_all(state, acceptor, after),
                        [state, acceptor](const std::exception_ptr& thrown) {
                          if (!thrown || !acceptor->is_open()) return;
                          state->tell_trouble("a connection was not accepted: " + what_ended(thrown));
                          keep_accepting(state, acceptor, kAcceptPause);
                        });
}

}  // namespace

struct Server::Impl {
  struct Bound {
    UnixListener listener;
    dev_t device;
    ino_t inode;
    std::shared_ptr<Acceptor> acceptor;
  };

  Impl(Loop& on, Router router, ServerLimits limits)
      : loop(on), state(std::make_shared<ServerState>()), pool(limits.pool_threads) {
    state->router = std::move(router);
    state->limits = limits;
    state->run_on_pool = [this](uid_t uid, std::function<void()> work) {
      {
        const std::lock_guard lock(pool_mutex);
        for_pool.add(uid, std::move(work));
      }
      boost::asio::post(pool, [this] { run_next(); });
    };
    state->post = [&on](std::function<void()> work) { boost::asio::post(context_of(on), std::move(work)); };
  }

  Result<void> start(UniqueFd fd, int family) {
    auto acceptor = std::make_shared<Acceptor>(context_of(loop));
    boost::system::error_code error;
    acceptor->assign(Stream(family, 0), fd.get(), error);
    if (error) return fail(ErrorCode::failed, "taking the listening socket: " + error.message());
    (void)fd.release();
    acceptors.push_back(acceptor);
    keep_accepting(state, std::move(acceptor), {});
    return {};
  }

  void run_next() {
    std::optional<std::function<void()>> work;
    {
      const std::lock_guard lock(pool_mutex);
      work = for_pool.next();
    }
    if (work) (*work)();
  }

  Loop& loop;
  std::shared_ptr<ServerState> state;
  std::vector<std::shared_ptr<Acceptor>> acceptors;  // shared with the accepting coroutine
  std::vector<Bound> files;
  std::mutex pool_mutex;
  RoundRobinQueue<std::function<void()>> for_pool;
  boost::asio::thread_pool pool;
};

Server::Server(Loop& loop, Router router, ServerLimits limits)
    : impl_(std::make_unique<Impl>(loop, std::move(router), limits)) {}

Server::~Server() {
  stop();
  impl_->pool.join();
}

Result<void> Server::listen(const UnixListener& listener) {
  auto fd = TRY(listen_unix(listener));
  struct stat status{};
  if (::stat(listener.path.c_str(), &status) != 0) return fail_errno(listener.path, errno);
  TRY(impl_->start(std::move(fd), AF_UNIX));
  impl_->files.push_back({listener, status.st_dev, status.st_ino, impl_->acceptors.back()});
  return {};
}

Result<std::size_t> Server::listen_anew() {
  std::size_t count = 0;
  for (std::size_t i = 0; i < impl_->files.size();) {
    const Impl::Bound bound = impl_->files[i];
    struct stat status{};
    if (::lstat(bound.listener.path.c_str(), &status) == 0 || errno != ENOENT) {
      ++i;
      continue;
    }
    TRY(listen(bound.listener));
    ++count;
    boost::system::error_code ignored;
    if (bound.acceptor->is_open()) close_deferred(UniqueFd(bound.acceptor->release(ignored)));
    std::erase(impl_->acceptors, bound.acceptor);
    impl_->files.erase(impl_->files.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return count;
}

Result<std::uint16_t> Server::listen(const std::string& address, std::uint16_t port) {
  auto fd = TRY(listen_tcp(address, port));
  sockaddr_in6 local{};  // the port is at the same offset for IPv4
  socklen_t size = sizeof local;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return fail_errno("getsockname", errno);
  const std::uint16_t bound = ntohs(local.sin6_port);
  TRY(impl_->start(std::move(fd), local.sin6_family));
  return bound;
}

void Server::stop() {
  for (const auto& acceptor : impl_->acceptors) {
    boost::system::error_code ignored;
    if (acceptor->is_open()) close_deferred(UniqueFd(acceptor->release(ignored)));  // its backlog may hold connections
  }
  impl_->acceptors.clear();
  // A successor may already listen at the same path.
  for (const auto& file : impl_->files) {
    struct stat status{};
    if (::lstat(file.listener.path.c_str(), &status) != 0) continue;
    if (status.st_dev == file.device && status.st_ino == file.inode) ::unlink(file.listener.path.c_str());
  }
  impl_->files.clear();
  for (Connection* connection : impl_->state->all) connection->close();
  impl_->state->waiting.clear();
}

void Server::hang_up_tcp() {
  for (Connection* connection : impl_->state->all) {
    if (!connection->peer().is_unix) connection->close();
  }
}

void Server::tell_trouble(std::function<void(const std::string&)> trouble) {
  impl_->state->trouble = std::move(trouble);
}

std::size_t Server::connections() const { return impl_->state->all.size() - impl_->state->lingering; }

std::uint64_t Server::refused() const { return impl_->state->refused; }

}  // namespace headgate::http
