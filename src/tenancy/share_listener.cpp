#include "tenancy/share_listener.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "http/io.hpp"
#include "tenancy/peer_registration.hpp"
#include "tenancy/tenant_messages.hpp"

namespace headgate::tenancy {

namespace asio = boost::asio;
using boost::system::error_code;

Result<Bell> make_bell() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail_errno("a doorbell", errno);
  refuse_descriptors(ends[0]);
  return Bell{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ShareListener::ShareListener(std::shared_ptr<ListenerCommon> common, std::string share, UniqueFd bell)
    : entry_(std::make_shared<ShareEntry>(std::move(common), std::move(share), std::move(bell))),
      listener_(entry_->common->executor),
      inode_(socket_inode()) {}

Result<void> ShareListener::start(UniqueFd listener) {
  error_code error;
  listener_.assign(listener.get(), error);
  if (error) return fail(ErrorCode::failed, "the door of the share '" + entry_->share + "': " + error.message());
  (void)listener.release();
  asio::co_spawn(entry_->common->executor, accept_all(shared_from_this()),
                 [listener = shared_from_this()](const std::exception_ptr& thrown) {
                   if (!listener->entry_->closed)
                     listener->entry_->tell_trouble("no process is admitted: " + http::what_ended(thrown));
                   listener->close();
                 });
  return {};
}

void ShareListener::close() {
  entry_->closed = true;
  if (listener_.is_open())
    close_deferred(UniqueFd(listener_.release()));  // some connections may not have been accepted
}

Result<UniqueFd> ShareListener::new_bell(std::chrono::steady_clock::time_point now) {
  if (now - belled_at_ < kBellsApart) return UniqueFd();
  Bell bell = TRY(make_bell());
  entry_->bell_of_tenants = std::move(bell.theirs);
  belled_at_ = now;
  return std::move(bell.ours);
}

ino_t ShareListener::socket_inode() const {
  struct stat facts{};
  const std::string path = entry_->common->shares.directory(entry_->share) + "/" + ledger::kTenantSocket;
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode) ? facts.st_ino : 0;
}

asio::awaitable<void> ShareListener::accept_all(std::shared_ptr<ShareListener> listener) {
  asio::steady_timer pause(listener->entry_->common->executor);
  for (error_code error; !listener->entry_->closed;) {
    co_await listener->listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                                            asio::redirect_error(asio::use_awaitable, error));
    if (listener->entry_->closed) co_return;
    if (error) throw boost::system::system_error(error);
    // Accept one per turn of the loop: floods at all sockets of one owner together then delay no other socket for long.
    int failed = 0;
    while (failed == 0) {
      failed = listener->accept_one();
      co_await asio::post(listener->entry_->common->executor, asio::use_awaitable);
      if (listener->entry_->closed) co_return;
    }
    // Out of descriptors or memory: the socket stays readable, so look at it again later, not at once.
    if (failed != 0 && failed != EAGAIN && failed != ECONNABORTED && failed != EINTR) {
      pause.expires_after(std::chrono::milliseconds(10));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

int ShareListener::accept_one() {
  const auto accept = [this] {
    return UntrustedSocket(
        UniqueFd(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  };
  if (UntrustedSocket socket = accept(); socket.get() >= 0) return admit(std::move(socket)), 0;
  const int error = errno;
  if (error != EMFILE && error != ENFILE) return error;
  // A peer left waiting takes the daemon for dead and follows its fail policy, perhaps unenforced.
  entry_->common->spare.reset();
  bool told = false;
  if (const UntrustedSocket last = accept(); last.get() >= 0) {
    refuse(last.get(), ledger::Refusal::busy, kNoDescriptor);
    told = true;
  }
  entry_->common->spare = spare_descriptor();
  return told ? 0 : error;
}

void ShareListener::admit(UntrustedSocket socket) {
  ShareConnections& connections = entry_->connections;
  if (const auto full = connections.full()) return refuse(socket.get(), ledger::Refusal::busy, *full);
  auto peer = identity::peer_of(socket.get(), entry_->common->proc);
  if (!peer) {
    // If it could not be found out this time, it may be the next.
    const bool never = peer.error().code == ErrorCode::unsupported;
    return refuse(socket.get(), never ? ledger::Refusal::not_allowed : ledger::Refusal::busy, peer.error().message);
  }
  if (const auto shut = entry_->shut_to(*peer)) return refuse(socket.get(), shut->code, shut->why);
  if (const auto full = connections.full_of(*peer)) return refuse(socket.get(), ledger::Refusal::busy, *full);
  ConnectionToken registering = connections.come(*peer);
  PeerRegistration::start(std::make_shared<PeerRegistration>(entry_, std::move(*peer), std::move(registering)),
                          std::move(socket));
}

}  // namespace headgate::tenancy
