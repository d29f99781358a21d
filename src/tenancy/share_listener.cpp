#include "tenancy/share_listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "base/now.hpp"
#include "guest/ledger/node_page.hpp"
#include "http/io.hpp"
#include "identity/subordinate.hpp"
#include "tenancy/share.hpp"
#include "tenancy/tenant_messages.hpp"

namespace headgate::tenancy {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;
using boost::system::error_code;

namespace {

constexpr const char* kNoDescriptor = "headgated has no descriptor left: try again";

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

UniqueFd spare_descriptor() { return UniqueFd(::open("/", O_PATH | O_CLOEXEC)); }

Result<Bell> make_bell() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail_errno("a doorbell", errno);
  refuse_descriptors(ends[0]);
  return Bell{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A connected peer. Keeps alive the listener that counts it.
struct ShareListener::PendingPeer {
  PendingPeer(std::shared_ptr<ShareListener> at, const asio::any_io_executor& executor, identity::Peer who,
              ConnectionToken counted)
      : door(std::move(at)), socket(executor), peer(std::move(who)), registering(std::move(counted)) {}
  ~PendingPeer() { hang_up(socket); }
  PendingPeer(const PendingPeer&) = delete;
  PendingPeer& operator=(const PendingPeer&) = delete;

  const std::shared_ptr<ShareListener> door;
  Descriptor socket;
  identity::Peer peer;
  ConnectionToken registering;
};

struct ShareListener::Asking {
  Asking(const asio::any_io_executor& executor, const identity::Peer& who) : timer(executor), peer(who) {}

  asio::steady_timer timer;
  const identity::Peer& peer;
  std::optional<Result<void>> decision;
  std::string moot;  // why the answer is no longer wanted

  void wake(std::string why) {
    moot = std::move(why);
    timer.cancel();
  }
};

ShareListener::ShareListener(std::shared_ptr<ListenerCommon> common, std::string share, UniqueFd bell)
    : common_(std::move(common)),
      share_(std::move(share)),
      crowd_(common_->crowd, common_->bounds, common_->shares.find(share_)->share.owner_uid),
      listener_(common_->executor),
      bell_of_tenants_(std::move(bell)),
      inode_(socket_inode()),
      generation_(common_->shares.find(share_)->generation) {}

Result<void> ShareListener::start(UniqueFd listener) {
  error_code error;
  listener_.assign(listener.get(), error);
  if (error) return fail(ErrorCode::failed, "the door of the share '" + share_ + "': " + error.message());
  (void)listener.release();
  asio::co_spawn(common_->executor, accept_all(shared_from_this()),
                 [door = shared_from_this()](const std::exception_ptr& thrown) {
                   if (!door->closed_) door->tell_trouble("no process is admitted: " + http::what_ended(thrown));
                   door->close();
                 });
  return {};
}

void ShareListener::close() {
  closed_ = true;
  hang_up(listener_);  // some connections may not have been accepted
}

Result<UniqueFd> ShareListener::new_bell(std::chrono::steady_clock::time_point now) {
  if (now - belled_at_ < kBellsApart) return UniqueFd();
  Bell bell = TRY(make_bell());
  bell_of_tenants_ = std::move(bell.theirs);
  belled_at_ = now;
  return std::move(bell.ours);
}

ino_t ShareListener::socket_inode() const {
  struct stat facts{};
  const std::string path = common_->shares.directory(share_) + "/" + ledger::kTenantSocket;
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode) ? facts.st_ino : 0;
}

void ShareListener::lied(const identity::Peer& peer, const std::string& what) const {
  if (common_->events.lied) common_->events.lied(share_, peer, what);
}

void ShareListener::tell_trouble(const std::string& what) const {
  if (common_->events.trouble) common_->events.trouble("the door of the share '" + share_ + "': " + what);
}

asio::awaitable<void> ShareListener::accept_all(std::shared_ptr<ShareListener> door) {
  asio::steady_timer pause(door->common_->executor);
  for (error_code error; !door->closed_;) {
    co_await door->listener_.async_wait(Descriptor::wait_read, into(error));
    if (door->closed_) co_return;
    if (error) throw boost::system::system_error(error);
    // Accept one per turn of the loop: floods at all sockets of one owner together then delay no other socket for long.
    int failed = 0;
    while (failed == 0) {
      failed = door->accept_one();
      co_await asio::post(door->common_->executor, asio::use_awaitable);
      if (door->closed_) co_return;
    }
    // Out of descriptors or memory: the socket stays readable, so look at it again later, not at once.
    if (failed != 0 && failed != EAGAIN && failed != ECONNABORTED && failed != EINTR) {
      pause.expires_after(std::chrono::milliseconds(10));
      co_await pause.async_wait(into(error));
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
  common_->spare.reset();
  bool told = false;
  if (const UntrustedSocket last = accept(); last.get() >= 0) {
    refuse(last.get(), ledger::Refusal::busy, kNoDescriptor);
    told = true;
  }
  common_->spare = spare_descriptor();
  return told ? 0 : error;
}

void ShareListener::admit(UntrustedSocket socket) {
  if (const auto full = crowd_.full()) return refuse(socket.get(), ledger::Refusal::busy, *full);
  auto peer = identity::peer_of(socket.get(), common_->proc);
  if (!peer) {
    // If it could not be found out this time, it may be the next.
    const bool never = peer.error().code == ErrorCode::unsupported;
    return refuse(socket.get(), never ? ledger::Refusal::not_allowed : ledger::Refusal::busy, peer.error().message);
  }
  if (const auto shut = shut_to(*peer)) return refuse(socket.get(), shut->code, shut->why);
  if (const auto full = crowd_.full_of(*peer)) return refuse(socket.get(), ledger::Refusal::busy, *full);
  ConnectionToken registering = crowd_.come(*peer);
  const auto pending =
      std::make_shared<PendingPeer>(shared_from_this(), common_->executor, std::move(*peer), std::move(registering));
  error_code error;
  pending->socket.assign(socket.get(), error);
  if (error) return refuse(socket.get(), ledger::Refusal::busy, "headgated cannot hear one more: " + error.message());
  (void)socket.release();
  asio::co_spawn(common_->executor, converse(pending), [pending](const std::exception_ptr& thrown) {
    if (!thrown) return;
    const std::string why = http::what_ended(thrown);
    pending->door->tell_trouble("process " + std::to_string(pending->peer.process.pid) + " was sent away: " + why);
    if (pending->socket.is_open())
      refuse(pending->socket.native_handle(), ledger::Refusal::busy, "headgated failed: " + why);
  });
}

// Checked again after each wait: the share may have changed, or have other users.
std::optional<ShareListener::Shut> ShareListener::shut_to(const identity::Peer& peer) const {
  const LiveShare* live = common_->shares.find(share_);
  if (closed_ && live != nullptr && live->generation == generation_)
    return Shut{ledger::Refusal::busy, "the door of the share '" + share_ + "' is being opened again: try again"};
  if (closed_) return Shut{ledger::Refusal::share_ending, "the share '" + share_ + "' has been removed"};
  if (live == nullptr || live->pages == nullptr || live->pages->truncated())
    return Shut{ledger::Refusal::share_ending, "the share '" + share_ + "' cannot be used"};
  const Visitor visitor{peer.uid, peer.gid, peer.groups, peer.user_namespace_owner};
  if (const auto allowed = may_enter(live->share, visitor); !allowed)
    return Shut{ledger::Refusal::not_allowed, allowed.error().message};
  return std::nullopt;
}

// For a share that shut_to() has just checked. A process that has its seat keeps it.
std::optional<ShareListener::Shut> ShareListener::shut_to_newcomers() const {
  const LiveShare* live = common_->shares.find(share_);
  if (has_ended(live->share, lease_now_s()))
    return Shut{ledger::Refusal::share_ending,
                "the time of the share '" + share_ + "' is over; its owner may put its end off: headgate share extend"};
  if (ledger::is_draining(live->pages->policy()))
    return Shut{ledger::Refusal::share_ending, std::string(ledger::kDrainingWords)};
  return std::nullopt;
}

asio::awaitable<void> ShareListener::converse(std::shared_ptr<PendingPeer> pending) {
  ShareListener& door = *pending->door;
  asio::steady_timer limit(door.common_->executor, door.common_->bounds.conversation);
  limit.async_wait([pending](const error_code& error) {
    if (!error) hang_up(pending->socket);
  });
  const auto hello = co_await next<ledger::Hello>(pending, ledger::MessageType::hello);
  if (!hello || !door.greet(*pending, *hello)) co_return;
  const auto claimed = co_await next<ledger::Claimed>(pending, ledger::MessageType::claimed);
  if (!claimed) co_return;
  const bool stays = co_await may_stay(pending, *claimed, limit);
  if (stays) door.seat(*pending, *claimed);
}

asio::awaitable<bool> ShareListener::waits_to_be_heard(std::shared_ptr<PendingPeer> pending) {
  error_code error;
  co_await pending->socket.async_wait(Descriptor::wait_read, into(error));
  co_return !error && pending->socket.is_open();
}

template <typename Message>
asio::awaitable<std::optional<Message>> ShareListener::next(std::shared_ptr<PendingPeer> pending,
                                                            ledger::MessageType type) {
  ShareListener& door = *pending->door;
  for (;;) {
    const bool says_something = co_await waits_to_be_heard(pending);
    if (!says_something) break;
    const int fd = pending->socket.native_handle();
    if (const auto shut = door.shut_to(pending->peer)) {
      refuse(fd, shut->code, shut->why);
      break;
    }
    Message message;
    const Heard heard = hear(fd, type, message);
    if (heard == Heard::message) co_return message;
    if (heard == Heard::strange) door.lied(pending->peer, "sent what is no message of ours");
    if (heard != Heard::nothing_yet) break;
  }
  co_return std::nullopt;
}

asio::awaitable<bool> ShareListener::may_stay(std::shared_ptr<PendingPeer> pending, ledger::Claimed claimed,
                                              asio::steady_timer& limit) {
  ShareListener& door = *pending->door;
  const identity::Peer& peer = pending->peer;
  auto tenant = door.to_ask_about(peer);
  if (!tenant) co_return true;
  // Looks at the socket for each message: its number may be another descriptor's by then.
  const auto say_no = [&](ledger::Refusal code, const std::string& why) {
    if (pending->socket.is_open()) refuse(pending->socket.native_handle(), code, why);
  };
  if (!door.common_->processes.sits(door.share_, peer.process.pid, {claimed.slot, claimed.slot_generation})) {
    door.refuse_seat(*pending, claimed.slot);
    co_return false;
  }
  const auto waiting = door.crowd_.wait(peer);
  if (!waiting) {
    say_no(ledger::Refusal::busy, waiting.error().message);
    co_return false;
  }
  limit.cancel();
  pending->registering.end();
  const auto answer = co_await answer_for(pending, std::move(*tenant));
  if (!answer) {
    const bool later = answer.error().code == ErrorCode::no_capacity;
    say_no(later ? ledger::Refusal::busy : ledger::Refusal::denied, answer.error().message);
    co_return false;
  }
  auto shut = door.shut_to(peer);
  if (!shut) shut = door.shut_to_newcomers();
  if (shut) say_no(shut->code, shut->why);
  co_return !shut;
}

std::optional<TenantProcess> ShareListener::to_ask_about(const identity::Peer& peer) const {
  const LiveShare* live = common_->shares.find(share_);
  if (live == nullptr || live->share.admit == Admit::now) return std::nullopt;
  std::optional<TenantProcess> found;
  common_->processes.each([&](const TenantProcess& tenant) {
    if (tenant.share == share_ && tenant.process.pid == peer.process.pid) found = tenant;
  });
  return found ? found : tenant_of(share_, peer, {});
}

asio::awaitable<Result<void>> ShareListener::answer_for(std::shared_ptr<PendingPeer> pending, TenantProcess tenant) {
  ShareListener& door = *pending->door;
  constexpr std::chrono::milliseconds kForTheAnswersWay{1000};
  const auto patience = door.common_->bounds.answer;
  const LiveShare* live = door.common_->shares.find(door.share_);
  if (!door.common_->events.ask || live == nullptr)
    co_return fail(ErrorCode::denied, "the share needs a scheduler's leave, and no scheduler is connected");
  const auto waiting = std::make_shared<Asking>(door.common_->executor, pending->peer);
  waiting->timer.expires_after(patience + kForTheAnswersWay);
  // A limiter has nothing more to say: what can be read is the end of its process, or an invalid message.
  constexpr const char* kGone = "the process went away";
  watch(pending, [waiting] { waiting->wake(kGone); });
  const auto take_back = door.common_->events.ask(live->share, tenant, [waiting](Result<void> decision) {
    waiting->decision = std::move(decision);
    waiting->timer.cancel();
  });
  if (waiting->decision) co_return std::move(*waiting->decision);
  // Send Hold only now: a limiter accepts one, and could not try again after it.
  say(pending->socket.native_handle(),
      ledger::Hold{ledger::head_of<ledger::Hold>(ledger::MessageType::hold),
                   static_cast<std::uint32_t>((patience + 2 * kForTheAnswersWay).count()), 0});
  door.asking_.insert(waiting);
  error_code ignored;
  co_await waiting->timer.async_wait(into(ignored));
  door.asking_.erase(waiting);
  if (waiting->decision) co_return std::move(*waiting->decision);
  const bool in_time = !waiting->moot.empty();
  const std::string why = in_time ? waiting->moot : "no scheduler answered in time";
  if (take_back) take_back(why);
  if (in_time && why != kGone) co_return Result<void>();
  co_return fail(ErrorCode::denied, why);
}

void ShareListener::reconsider() {
  for (const auto& one : asking_) {
    auto shut = shut_to(one->peer);
    if (!shut) shut = shut_to_newcomers();
    if (shut) one->wake(shut->why);
    else if (common_->shares.find(share_)->share.admit == Admit::now) one->wake("the share asks no more, and it is in");
  }
}

void ShareListener::watch(const std::weak_ptr<PendingPeer>& whom, std::function<void()> gone) {
  const auto there = whom.lock();
  if (there == nullptr) return;
  there->socket.async_wait(Descriptor::wait_read, [whom, gone = std::move(gone)](const error_code& error) {
    const auto pending = whom.lock();
    if (pending == nullptr) return;
    char byte = 0;
    // The loop may report data that has already been read. lock() is a weak_ptr's, and MSG_DONTWAIT does not wait.
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    if (!error && ::recv(pending->socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
      return watch(whom, gone);
    gone();
  });
}

bool ShareListener::greet(PendingPeer& pending, const ledger::Hello& hello) {
  const int socket = pending.socket.native_handle();
  const identity::Peer& peer = pending.peer;
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
    lied(peer, "called itself pid " + std::to_string(hello.pid));
    return false;
  }
  LiveShare* live = common_->shares.find(share_);                        // exists: shut_to() has just checked
  const bool seated = common_->processes.has_seat(share_, process.pid);  // it comes for another bell
  if (const auto shut = seated ? std::nullopt : shut_to_newcomers()) {
    refuse(socket, shut->code, shut->why);
    return false;
  }
  if (!seated && common_->processes.count_in(share_) >= ledger::kMaxSlots) {
    refuse(socket, Refusal::busy,
           "the share has " + std::to_string(ledger::kMaxSlots) + " processes, and no room for more");
    return false;
  }
  // Watch it before it can claim: it may be killed right after, and its slot is found by the identity in it.
  TenantProcess tenant = tenant_of(share_, peer, {process.namespace_pid, hello.pidns_inode, hello.start_time});
  if (const auto cgroups = identity::read_cgroups(common_->proc, process.pid))
    tenant.where = identity::identify(*cgroups);
  UniqueFd pidfd(::fcntl(peer.pidfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!pidfd) {
    refuse(socket, Refusal::busy, kNoDescriptor);
    return false;
  }
  if (auto entered = common_->processes.enter(std::move(tenant), std::move(pidfd)); !entered) {
    refuse(socket, Refusal::busy, entered.error().message);
    return false;
  }
  ledger::Welcome welcome{ledger::head_of<ledger::Welcome>(ledger::MessageType::welcome), {}, live->generation};
  std::memcpy(welcome.share, share_.data(), std::min(share_.size(), sizeof welcome.share - 1));
  std::vector<int> descriptors = {live->pages->policy_fd(), live->pages->usage_fd(), bell_of_tenants_.get()};
  if (common_->events.handed) std::ranges::copy(common_->events.handed(share_), std::back_inserter(descriptors));
  descriptors.resize(std::min<std::size_t>(descriptors.size(), ledger::kMaxWelcomeDescriptors));
  if (say(socket, welcome, descriptors)) return true;
  refuse(socket, Refusal::busy, std::string("headgated cannot hand out the share's pages: ") + std::strerror(errno));
  return false;
}

void ShareListener::seat(PendingPeer& pending, const ledger::Claimed& claimed) {
  if (common_->processes.seat(share_, pending.peer.process.pid, {claimed.slot, claimed.slot_generation})) {
    say(pending.socket.native_handle(), ledger::Seated{ledger::head_of<ledger::Seated>(ledger::MessageType::seated)});
    return;
  }
  refuse_seat(pending, claimed.slot);
}

void ShareListener::refuse_seat(PendingPeer& pending, std::uint32_t slot) {
  refuse(pending.socket.native_handle(), ledger::Refusal::not_yours, "slot " + std::to_string(slot) + " is not yours");
  lied(pending.peer, "claimed slot " + std::to_string(slot) + ", which is not its own");
}

}  // namespace headgate::tenancy
