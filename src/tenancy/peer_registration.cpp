#include "tenancy/peer_registration.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "http/io.hpp"
#include "identity/subordinate.hpp"
#include "tenancy/share.hpp"
#include "tenancy/tenant_messages.hpp"

namespace headgate::tenancy {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;
using boost::system::error_code;

namespace {

void hang_up(Descriptor& socket) {
  if (socket.is_open()) close_deferred(UniqueFd(socket.release()));
}

asio::redirect_error_t<asio::use_awaitable_t<>> into(error_code& error) { return {asio::use_awaitable, error}; }

TenantProcess tenant_of(const std::string& share, const identity::Peer& peer, const ledger::Identity& seat) {
  return {.share = share,
          .process = peer.process,
          .uid = peer.uid,
          .user = identity::answerable_user(peer.uid, peer.user_namespace_owner),
          .where = {},
          .seat = seat,
          .slot = {}};
}

}  // namespace

PeerRegistration::PeerRegistration(std::shared_ptr<ShareEntry> entry, identity::Peer peer, ConnectionToken counted)
    : entry_(std::move(entry)),
      socket_(entry_->common->executor),
      peer_(std::move(peer)),
      registering_(std::move(counted)) {}

PeerRegistration::~PeerRegistration() { hang_up(socket_); }

void PeerRegistration::start(const std::shared_ptr<PeerRegistration>& pending, UntrustedSocket socket) {
  error_code error;
  pending->socket_.assign(socket.get(), error);
  if (error) return refuse(socket.get(), ledger::Refusal::busy, "headgated cannot hear one more: " + error.message());
  (void)socket.release();
  asio::co_spawn(pending->entry_->common->executor, converse(pending), [pending](const std::exception_ptr& thrown) {
    if (!thrown) return;
    const std::string why = http::what_ended(thrown);
    pending->entry_->tell_trouble("process " + std::to_string(pending->peer_.process.pid) + " was sent away: " + why);
    if (pending->socket_.is_open())
      refuse(pending->socket_.native_handle(), ledger::Refusal::busy, "headgated failed: " + why);
  });
}

asio::awaitable<void> PeerRegistration::converse(std::shared_ptr<PeerRegistration> pending) {
  ShareEntry& entry = *pending->entry_;
  asio::steady_timer limit(entry.common->executor, entry.common->bounds.conversation);
  limit.async_wait([pending](const error_code& error) {
    if (!error) hang_up(pending->socket_);
  });
  const auto hello = co_await next<ledger::Hello>(pending, ledger::MessageType::hello);
  if (!hello || !pending->greet(*hello)) co_return;
  const auto claimed = co_await next<ledger::Claimed>(pending, ledger::MessageType::claimed);
  if (!claimed) co_return;
  const bool stays = co_await may_stay(pending, *claimed, limit);
  if (stays) pending->seat(*claimed);
}

asio::awaitable<bool> PeerRegistration::waits_to_be_heard(std::shared_ptr<PeerRegistration> pending) {
  error_code error;
  co_await pending->socket_.async_wait(Descriptor::wait_read, into(error));
  co_return !error && pending->socket_.is_open();
}

template <typename Message>
asio::awaitable<std::optional<Message>> PeerRegistration::next(std::shared_ptr<PeerRegistration> pending,
                                                               ledger::MessageType type) {
  ShareEntry& entry = *pending->entry_;
  for (;;) {
    const bool says_something = co_await waits_to_be_heard(pending);
    if (!says_something) break;
    const int fd = pending->socket_.native_handle();
    if (const auto shut = entry.shut_to(pending->peer_)) {
      refuse(fd, shut->code, shut->why);
      break;
    }
    Message message;
    const Heard heard = hear(fd, type, message);
    if (heard == Heard::message) co_return message;
    if (heard == Heard::strange) entry.lied(pending->peer_, "sent what is no message of ours");
    if (heard != Heard::nothing_yet) break;
  }
  co_return std::nullopt;
}

asio::awaitable<bool> PeerRegistration::may_stay(std::shared_ptr<PeerRegistration> pending, ledger::Claimed claimed,
                                                 asio::steady_timer& limit) {
  ShareEntry& entry = *pending->entry_;
  const identity::Peer& peer = pending->peer_;
  auto tenant = pending->to_ask_about();
  if (!tenant) co_return true;
  // Looks at the socket for each message: its number may be another descriptor's by then.
  const auto say_no = [&](ledger::Refusal code, const std::string& why) {
    if (pending->socket_.is_open()) refuse(pending->socket_.native_handle(), code, why);
  };
  if (!entry.common->processes.sits(entry.share, peer.process.pid, {claimed.slot, claimed.slot_generation})) {
    pending->refuse_seat(claimed.slot);
    co_return false;
  }
  const auto waiting = entry.connections.wait(peer);
  if (!waiting) {
    say_no(ledger::Refusal::busy, waiting.error().message);
    co_return false;
  }
  limit.cancel();
  pending->registering_.end();
  const auto answer = co_await answer_for(pending, std::move(*tenant));
  if (!answer) {
    const bool later = answer.error().code == ErrorCode::no_capacity;
    say_no(later ? ledger::Refusal::busy : ledger::Refusal::denied, answer.error().message);
    co_return false;
  }
  auto shut = entry.shut_to(peer);
  if (!shut) shut = entry.shut_to_newcomers();
  if (shut) say_no(shut->code, shut->why);
  co_return !shut;
}

std::optional<TenantProcess> PeerRegistration::to_ask_about() const {
  const LiveShare* live = entry_->common->shares.find(entry_->share);
  if (live == nullptr || live->share.admit == Admit::now) return std::nullopt;
  std::optional<TenantProcess> found;
  entry_->common->processes.each([&](const TenantProcess& tenant) {
    if (tenant.share == entry_->share && tenant.process.pid == peer_.process.pid) found = tenant;
  });
  return found ? found : tenant_of(entry_->share, peer_, {});
}

asio::awaitable<Result<void>> PeerRegistration::answer_for(std::shared_ptr<PeerRegistration> pending,
                                                           TenantProcess tenant) {
  ShareEntry& entry = *pending->entry_;
  constexpr std::chrono::milliseconds kForTheAnswersWay{1000};
  const auto patience = entry.common->bounds.answer;
  const LiveShare* live = entry.common->shares.find(entry.share);
  if (!entry.common->events.ask || live == nullptr)
    co_return fail(ErrorCode::denied, "the share needs a scheduler's leave, and no scheduler is connected");
  const auto waiting = std::make_shared<AskedPeer>(entry.common->executor, pending->peer_);
  waiting->timer.expires_after(patience + kForTheAnswersWay);
  // A limiter has nothing more to say: what can be read is the end of its process, or an invalid message.
  constexpr const char* kGone = "the process went away";
  watch(pending, [waiting] { waiting->wake(kGone); });
  const auto take_back = entry.common->events.ask(live->share, tenant, [waiting](Result<void> decision) {
    waiting->decision = std::move(decision);
    waiting->timer.cancel();
  });
  if (waiting->decision) co_return std::move(*waiting->decision);
  // Send Hold only now: a limiter accepts one, and could not try again after it.
  say(pending->socket_.native_handle(),
      ledger::Hold{ledger::head_of<ledger::Hold>(ledger::MessageType::hold),
                   static_cast<std::uint32_t>((patience + 2 * kForTheAnswersWay).count()), 0});
  entry.asking.insert(waiting);
  error_code ignored;
  co_await waiting->timer.async_wait(into(ignored));
  entry.asking.erase(waiting);
  if (waiting->decision) co_return std::move(*waiting->decision);
  const bool in_time = !waiting->moot.empty();
  const std::string why = in_time ? waiting->moot : "no scheduler answered in time";
  if (take_back) take_back(why);
  if (in_time && why != kGone) co_return Result<void>();
  co_return fail(ErrorCode::denied, why);
}

void PeerRegistration::watch(const std::weak_ptr<PeerRegistration>& waiting, std::function<void()> gone) {
  const auto there = waiting.lock();
  if (there == nullptr) return;
  there->socket_.async_wait(Descriptor::wait_read, [waiting, gone = std::move(gone)](const error_code& error) {
    const auto pending = waiting.lock();
    if (pending == nullptr) return;
    char byte = 0;
    // The loop may report data that has already been read. lock() is a weak_ptr's, and MSG_DONTWAIT does not wait.
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    if (!error && ::recv(pending->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
      return watch(waiting, gone);
    gone();
  });
}

bool PeerRegistration::greet(const ledger::Hello& hello) {
  const int socket = socket_.native_handle();
  const identity::Peer& peer = peer_;
  using ledger::Refusal;
  if (hello.page_version != ledger::kVersion) {
    refuse(socket, Refusal::version,
           "headgated speaks registration " + std::to_string(ledger::kRegistrationVersion) + " with pages " +
               std::to_string(ledger::kVersion) + ", this limiter registration " + std::to_string(hello.head.version) +
               " with pages " + std::to_string(hello.page_version) + ": mount the limiter of this node's headgate");
    return false;
  }
  const identity::Process& process = peer.process;
  const bool same_pid = hello.pid == 0 || hello.pid == process.namespace_pid;
  const bool same_namespace =
      hello.pidns_inode == 0 || process.pidns_inode == 0 || hello.pidns_inode == process.pidns_inode;
  if (!same_pid || !same_namespace) {
    refuse(socket, Refusal::not_yours,
           "you are pid " + std::to_string(process.namespace_pid) + ", not " + std::to_string(hello.pid));
    entry_->lied(peer, "called itself pid " + std::to_string(hello.pid));
    return false;
  }
  LiveShare* live = entry_->common->shares.find(entry_->share);  // exists: shut_to() has just checked
  const bool seated = entry_->common->processes.has_seat(entry_->share, process.pid);  // it comes for another bell
  if (const auto shut = seated ? std::nullopt : entry_->shut_to_newcomers()) {
    refuse(socket, shut->code, shut->why);
    return false;
  }
  if (!seated && entry_->common->processes.count_in(entry_->share) >= ledger::kMaxSlots) {
    refuse(socket, Refusal::busy,
           "the share has " + std::to_string(ledger::kMaxSlots) + " processes, and no room for more");
    return false;
  }
  // Watch it before it can claim: it may be killed right after, and its slot is found by the identity in it.
  TenantProcess tenant = tenant_of(entry_->share, peer, {process.namespace_pid, hello.pidns_inode, hello.start_time});
  if (const auto cgroups = identity::read_cgroups(entry_->common->proc, process.pid))
    tenant.where = identity::identify(*cgroups);
  UniqueFd pidfd(::fcntl(peer.pidfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!pidfd) {
    refuse(socket, Refusal::busy, kNoDescriptor);
    return false;
  }
  if (auto entered = entry_->common->processes.enter(std::move(tenant), std::move(pidfd)); !entered) {
    refuse(socket, Refusal::busy, entered.error().message);
    return false;
  }
  ledger::Welcome welcome{ledger::head_of<ledger::Welcome>(ledger::MessageType::welcome), {}, live->generation};
  std::memcpy(welcome.share, entry_->share.data(), std::min(entry_->share.size(), sizeof welcome.share - 1));
  std::vector<int> descriptors = {live->pages->policy_fd(), live->pages->usage_fd(), entry_->bell_of_tenants.get()};
  if (entry_->common->events.handed)
    std::ranges::copy(entry_->common->events.handed(entry_->share), std::back_inserter(descriptors));
  descriptors.resize(std::min<std::size_t>(descriptors.size(), ledger::kMaxWelcomeDescriptors));
  if (say(socket, welcome, descriptors)) return true;
  refuse(socket, Refusal::busy, std::string("headgated cannot hand out the share's pages: ") + std::strerror(errno));
  return false;
}

void PeerRegistration::seat(const ledger::Claimed& claimed) {
  if (entry_->common->processes.seat(entry_->share, peer_.process.pid, {claimed.slot, claimed.slot_generation})) {
    say(socket_.native_handle(), ledger::Seated{ledger::head_of<ledger::Seated>(ledger::MessageType::seated)});
    return;
  }
  refuse_seat(claimed.slot);
}

void PeerRegistration::refuse_seat(std::uint32_t slot) {
  refuse(socket_.native_handle(), ledger::Refusal::not_yours, "slot " + std::to_string(slot) + " is not yours");
  entry_->lied(peer_, "claimed slot " + std::to_string(slot) + ", which is not its own");
}

}  // namespace headgate::tenancy
