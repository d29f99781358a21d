#include "tenancy/tenant_doors.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <optional>

#include "guest/ledger/node_page.hpp"
#include "guest/ledger/registration.hpp"
#include "tenancy/access.hpp"

namespace headgate::tenancy {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;
using boost::system::error_code;

struct TenantDoors::Common {
  asio::any_io_executor executor;
  Shares& shares;
  Processes& processes;
  std::string proc;
  Bounds bounds;
  Events events;
  NodeCrowd crowd = {};
};

namespace {

// What the tenants of a share have of its doorbell, and our end of it. A pair of sockets rather than an eventfd: the tenant's end
// shares no file flags with ours, so that we never block in a read that a tenant made blocking; and a limiter can tell by its
// inode that the descriptor is still the bell, when the program has closed and opened others meanwhile.
struct Bell {
  UniqueFd ours, theirs;
};

Result<Bell> make_bell() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail_errno("a doorbell", errno);
  return Bell{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Paths longer than sun_path are reached through the directory's descriptor.
Result<UniqueFd> listen_at(const std::string& directory) {
  const UniqueFd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno(directory, errno);
  const std::string where = directory + "/" + ledger::kTenantSocket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = where.size() < sizeof address.sun_path
                               ? where
                               : "/proc/self/fd/" + std::to_string(folder.get()) + "/" + ledger::kTenantSocket;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return fail_errno(where, errno);
  if (::unlinkat(folder.get(), ledger::kTenantSocket, 0) != 0 && errno != ENOENT) return fail_errno(where, errno);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(where, errno);
  // Connecting takes the right to write; who is let in is decided by who connects.
  if (::fchmodat(folder.get(), ledger::kTenantSocket, 0666, 0) != 0) return fail_errno(where, errno);
  if (::listen(listener.get(), 128) != 0) return fail_errno(where, errno);
  return listener;
}

// Never waits: a peer that does not read what little we say is not waited for.
template <typename Message>
bool say(int socket, const Message& message, std::span<const int> descriptors = {}) {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * ledger::kMostWelcomeDescriptors)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

void refuse(int socket, ledger::Refusal code, const std::string& why) {
  ledger::Refuse message{ledger::head_of<ledger::Refuse>(ledger::Verb::refuse), code, {}};
  std::memcpy(message.text, why.data(), std::min(why.size(), sizeof message.text - 1));
  say(socket, message);
}

enum class Heard { message, nothing_yet, ended, strange };

// One whole message of that verb. Descriptors that come with it are not taken: the kernel closes them.
template <typename Message>
Heard hear(int socket, ledger::Verb verb, Message& out) {
  std::array<char, sizeof(ledger::Refuse)> bytes;
  const ssize_t length = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (length < 0) return errno == EAGAIN || errno == EINTR ? Heard::nothing_yet : Heard::ended;
  if (length == 0) return Heard::ended;
  if (static_cast<std::size_t>(length) < sizeof(ledger::MessageHead)) return Heard::strange;
  ledger::MessageHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  // Another version's message may have another length: it is told of its version, not of its bytes.
  const bool other_version = head.magic == ledger::kRegistrationMagic && head.version != ledger::kRegistrationVersion;
  std::memset(static_cast<void*>(&out), 0, sizeof out);
  if (other_version) return out.head = head, Heard::message;
  if (length != static_cast<ssize_t>(sizeof out) || head.magic != ledger::kRegistrationMagic || head.verb != verb ||
      head.bytes != sizeof out)
    return Heard::strange;
  std::memcpy(static_cast<void*>(&out), bytes.data(), sizeof out);
  return Heard::message;
}

asio::redirect_error_t<asio::use_awaitable_t<>> into(error_code& error) { return {asio::use_awaitable, error}; }

}  // namespace

// One share's listening socket, and who is at the door. Its coroutines keep it alive; close() ends them.
class Door : public std::enable_shared_from_this<Door> {
 public:
  Door(std::shared_ptr<TenantDoors::Common> common, std::string share, UniqueFd listener, UniqueFd bell)
      : common_(std::move(common)),
        share_(std::move(share)),
        crowd_(common_->crowd, common_->bounds),
        listener_(common_->executor, listener.release()),
        bell_of_tenants_(std::move(bell)),
        inode_(socket_inode()) {}

  void start() { asio::co_spawn(common_->executor, accept_all(shared_from_this()), asio::detached); }
  // Somebody who comes now is heard.
  [[nodiscard]] bool open() const { return !closed_ && inode_ != 0 && socket_inode() == inode_; }
  void close() {
    closed_ = true;
    error_code ignored;
    listener_.close(ignored);
  }

 private:
  // Coroutines are static and take the door by value, so that it outlives whatever they wait for.
  static asio::awaitable<void> accept_all(std::shared_ptr<Door> door);
  static asio::awaitable<void> converse(std::shared_ptr<Door> door, std::shared_ptr<Descriptor> socket,
                                        std::shared_ptr<identity::Peer> peer);

  static asio::awaitable<Result<void>> answer_for(std::shared_ptr<Door> door, std::shared_ptr<Descriptor> socket,
                                                  TenantProcess tenant);

  // Of the socket as others find it; 0 where there is none.
  [[nodiscard]] ino_t socket_inode() const {
    struct stat facts{};
    const std::string path = common_->shares.directory(share_) + "/" + ledger::kTenantSocket;
    return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode) ? facts.st_ino : 0;
  }

  struct Shut {
    ledger::Refusal code;
    std::string why;
  };

  void admit(UniqueFd socket);
  void refuse_seat(int socket, const identity::Peer& peer, std::uint32_t slot);
  // Why that peer may not come in now; empty where it may.
  std::optional<Shut> shut_to(const identity::Peer& peer) const;
  std::optional<Shut> shut_to_newcomers() const;
  // The process whom the share's owner wants asked about; empty where nobody has to be.
  std::optional<TenantProcess> to_ask_about(const identity::Peer& peer) const;
  bool greet(int socket, identity::Peer& peer, const ledger::Hello& hello);
  void seat(int socket, const identity::Peer& peer, const ledger::Claimed& claimed);
  void lied(const identity::Peer& peer, const std::string& what) const {
    if (common_->events.lied) common_->events.lied(share_, peer, what);
  }

  std::shared_ptr<TenantDoors::Common> common_;
  std::string share_;
  DoorCrowd crowd_;
  Descriptor listener_;
  UniqueFd bell_of_tenants_;
  const ino_t inode_;
  bool closed_ = false;
};

asio::awaitable<void> Door::accept_all(std::shared_ptr<Door> door) {
  asio::steady_timer pause(door->common_->executor);
  for (error_code error; !door->closed_;) {
    co_await door->listener_.async_wait(Descriptor::wait_read, into(error));
    if (error) co_return door->close();
    // A turn's worth, so that a flood at this door does not keep the loop from everything else.
    int accepted = -1;
    for (int turn = 0; turn < 16; ++turn) {
      accepted = ::accept4(door->listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (accepted < 0) break;
      door->admit(UniqueFd(accepted));
    }
    // Out of descriptors or memory: the socket stays readable, so it is looked at again later, not at once.
    if (accepted < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(into(error));
    }
  }
}

void Door::admit(UniqueFd socket) {
  if (const auto full = crowd_.full()) return refuse(socket.get(), ledger::Refusal::busy, *full);
  auto peer = identity::peer_of(socket.get(), common_->proc);
  if (!peer) return refuse(socket.get(), ledger::Refusal::not_allowed, peer.error().message);
  if (const auto shut = shut_to(*peer)) return refuse(socket.get(), shut->code, shut->why);
  if (const auto full = crowd_.full_of(*peer)) return refuse(socket.get(), ledger::Refusal::busy, *full);
  crowd_.come(*peer);
  auto held = std::make_shared<Descriptor>(common_->executor, socket.release());
  asio::co_spawn(common_->executor,
                 converse(shared_from_this(), std::move(held), std::make_shared<identity::Peer>(std::move(*peer))),
                 asio::detached);
}

// Asked anew whenever somebody was waited for: the share may be another by then, or have other users.
std::optional<Door::Shut> Door::shut_to(const identity::Peer& peer) const {
  if (closed_) return Shut{ledger::Refusal::share_ending, "the share '" + share_ + "' has been removed"};
  const LiveShare* live = common_->shares.find(share_);
  if (live == nullptr || live->pages == nullptr || live->pages->spoiled())
    return Shut{ledger::Refusal::share_ending, "the share '" + share_ + "' cannot be used"};
  const Visitor visitor{peer.uid, peer.gid, peer.groups, peer.user_namespace_owner};
  if (const auto allowed = may_enter(live->share, visitor); !allowed)
    return Shut{ledger::Refusal::not_allowed, allowed.error().message};
  return std::nullopt;
}

// Of a share that shut_to() has just seen. Who has his seat keeps it.
std::optional<Door::Shut> Door::shut_to_newcomers() const {
  const LiveShare* live = common_->shares.find(share_);
  if (has_ended(live->share, std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())))
    return Shut{ledger::Refusal::share_ending,
                "the time of the share '" + share_ + "' is over; its owner may put its end off: headgate share extend"};
  if (ledger::is_draining(live->pages->policy()))
    return Shut{ledger::Refusal::share_ending, std::string(ledger::kDrainingWords)};
  return std::nullopt;
}

asio::awaitable<void> Door::converse(std::shared_ptr<Door> door, std::shared_ptr<Descriptor> socket,
                                     std::shared_ptr<identity::Peer> peer) {
  asio::steady_timer limit(door->common_->executor, door->common_->bounds.conversation);
  limit.async_wait([socket](const error_code& error) {
    if (!error) socket->close();
  });
  bool greeted = false, registering = true;
  for (error_code error; socket->is_open();) {
    co_await socket->async_wait(Descriptor::wait_read, into(error));
    if (error || !socket->is_open()) break;
    const int fd = socket->native_handle();
    if (const auto shut = door->shut_to(*peer)) {
      refuse(fd, shut->code, shut->why);
      break;
    }
    Heard heard = Heard::strange;
    if (!greeted) {
      ledger::Hello hello;
      heard = hear(fd, ledger::Verb::hello, hello);
      if (heard == Heard::message && !(greeted = door->greet(fd, *peer, hello))) break;
    } else {
      ledger::Claimed claimed;
      heard = hear(fd, ledger::Verb::claimed, claimed);
      if (heard == Heard::message) {
        if (auto tenant = door->to_ask_about(*peer)) {
          if (!door->common_->processes.sits(door->share_, peer->process.pid,
                                             {claimed.slot, claimed.slot_generation})) {
            door->refuse_seat(fd, *peer, claimed.slot);
            break;
          }
          if (const auto crowded = door->crowd_.start_waiting(*peer)) {
            refuse(fd, ledger::Refusal::busy, *crowded);
            break;
          }
          limit.cancel();
          door->crowd_.go(*peer);
          registering = false;
          const auto answer = co_await answer_for(door, socket, std::move(*tenant));
          door->crowd_.stop_waiting(*peer);
          if (!answer) {
            refuse(fd, ledger::Refusal::denied, answer.error().message);
            break;
          }
          auto shut = door->shut_to(*peer);
          if (!shut) shut = door->shut_to_newcomers();
          if (shut) {
            refuse(fd, shut->code, shut->why);
            break;
          }
        }
        door->seat(fd, *peer, claimed);
        break;
      }
    }
    if (heard == Heard::ended) break;
    if (heard == Heard::strange) {
      door->lied(*peer, "sent what is no message of ours");
      break;
    }
  }
  limit.cancel();
  if (registering) door->crowd_.go(*peer);
}

std::optional<TenantProcess> Door::to_ask_about(const identity::Peer& peer) const {
  const LiveShare* live = common_->shares.find(share_);
  if (live == nullptr || live->share.admit == Admit::now) return std::nullopt;
  std::optional<TenantProcess> found;
  common_->processes.each([&](const TenantProcess& tenant) {
    if (tenant.share == share_ && tenant.process.pid == peer.process.pid) found = tenant;
  });
  if (!found)
    found =
        TenantProcess{.share = share_, .process = peer.process, .uid = peer.uid, .where = {}, .seat = {}, .slot = {}};
  return found;
}

asio::awaitable<Result<void>> Door::answer_for(std::shared_ptr<Door> door, std::shared_ptr<Descriptor> socket,
                                               TenantProcess tenant) {
  struct Waiting {
    explicit Waiting(const asio::any_io_executor& executor) : timer(executor) {}
    asio::steady_timer timer;
    std::optional<Result<void>> decision;
    bool gone = false;
  };
  constexpr std::chrono::milliseconds kForTheAnswersWay{1000};
  const auto patience = door->common_->bounds.answer;
  const LiveShare* live = door->common_->shares.find(door->share_);
  if (!door->common_->events.ask || live == nullptr)
    co_return fail(ErrorCode::denied, "the share asks first who may enter, and nobody is there to be asked");
  say(socket->native_handle(), ledger::Hold{ledger::head_of<ledger::Hold>(ledger::Verb::hold),
                                            static_cast<std::uint32_t>((patience + 2 * kForTheAnswersWay).count()), 0});
  const auto waiting = std::make_shared<Waiting>(door->common_->executor);
  waiting->timer.expires_after(patience + kForTheAnswersWay);
  // A limiter has nothing more to say: what can be read is the end of its process, or no message of ours.
  socket->async_wait(Descriptor::wait_read, [waiting](const error_code&) {
    waiting->gone = true;
    waiting->timer.cancel();
  });
  const auto take_back = door->common_->events.ask(live->share, tenant, [waiting](Result<void> decision) {
    waiting->decision = std::move(decision);
    waiting->timer.cancel();
  });
  error_code ignored;
  if (!waiting->decision) co_await waiting->timer.async_wait(into(ignored));
  if (waiting->decision) co_return std::move(*waiting->decision);
  if (take_back) take_back();
  co_return fail(ErrorCode::denied, waiting->gone ? "the process went away" : "nobody answered in time");
}

bool Door::greet(int socket, identity::Peer& peer, const ledger::Hello& hello) {
  using ledger::Refusal;
  if (hello.head.version != ledger::kRegistrationVersion || hello.page_version != ledger::kVersion) {
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
  LiveShare* live = common_->shares.find(share_);  // there is one: shut_to() has just seen it
  if (const auto shut = shut_to_newcomers()) {
    refuse(socket, shut->code, shut->why);
    return false;
  }
  if (common_->processes.count_in(share_) >= ledger::kMaxSlots) {
    refuse(socket, Refusal::busy,
           "the share has " + std::to_string(ledger::kMaxSlots) + " processes, and no room for more");
    return false;
  }
  // Watched before it can claim: it may be killed right after, and its slot is known by who sits there.
  TenantProcess tenant{.share = share_,
                       .process = process,
                       .uid = peer.uid,
                       .where = {},
                       .seat = {process.namespace_pid, hello.pidns_inode, hello.start_time},
                       .slot = std::nullopt};
  if (const auto cgroups = identity::read_cgroups(common_->proc, process.pid))
    tenant.where = identity::identify(*cgroups);
  UniqueFd pidfd(::fcntl(peer.pidfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!pidfd) return false;
  common_->processes.enter(std::move(tenant), std::move(pidfd));
  ledger::Welcome welcome{ledger::head_of<ledger::Welcome>(ledger::Verb::welcome), {}, live->generation};
  std::memcpy(welcome.share, share_.data(), std::min(share_.size(), sizeof welcome.share - 1));
  std::vector<int> descriptors = {live->pages->policy_fd(), live->pages->usage_fd(), bell_of_tenants_.get()};
  if (common_->events.handed) std::ranges::copy(common_->events.handed(share_), std::back_inserter(descriptors));
  descriptors.resize(std::min<std::size_t>(descriptors.size(), ledger::kMostWelcomeDescriptors));
  return say(socket, welcome, descriptors);
}

void Door::seat(int socket, const identity::Peer& peer, const ledger::Claimed& claimed) {
  if (claimed.head.version == ledger::kRegistrationVersion &&
      common_->processes.seat(share_, peer.process.pid, {claimed.slot, claimed.slot_generation})) {
    say(socket, ledger::Seated{ledger::head_of<ledger::Seated>(ledger::Verb::seated)});
    return;
  }
  refuse_seat(socket, peer, claimed.slot);
}

void Door::refuse_seat(int socket, const identity::Peer& peer, std::uint32_t slot) {
  refuse(socket, ledger::Refusal::not_yours, "slot " + std::to_string(slot) + " is not yours");
  lied(peer, "claimed slot " + std::to_string(slot) + ", which is not its own");
}

TenantDoors::TenantDoors(asio::any_io_executor executor, Shares& shares, Processes& processes, std::string proc,
                         Bounds bounds, Events events)
    : common_(std::make_shared<Common>(
          Common{std::move(executor), shares, processes, std::move(proc), bounds, std::move(events)})) {}

TenantDoors::~TenantDoors() {
  for (const auto& [name, door] : doors_) door->close();
}

Result<void> TenantDoors::open(const std::string& share) {
  const LiveShare* live = common_->shares.find(share);
  if (live == nullptr) return fail(ErrorCode::not_found, "there is no share '" + harmless(share) + "'");
  if (live->broken) return std::unexpected(*live->broken);
  close(share);
  UniqueFd listener = TRY(listen_at(common_->shares.directory(share)));
  Bell bell = TRY(make_bell());
  auto door = std::make_shared<Door>(common_, share, std::move(listener), std::move(bell.theirs));
  door->start();
  doors_[share] = std::move(door);
  if (common_->events.bell) common_->events.bell(share, std::move(bell.ours));
  return {};
}

Result<void> TenantDoors::open_all() {
  Result<void> first;
  for (const auto& [name, live] : common_->shares.list()) {
    if (live.broken) continue;
    if (auto opened = open(name); !opened && first) first = std::move(opened);
  }
  return first;
}

void TenantDoors::close(const std::string& share) {
  const auto found = doors_.find(share);
  if (found == doors_.end()) return;
  found->second->close();
  doors_.erase(found);
}

std::vector<std::string> TenantDoors::shut() const {
  std::vector<std::string> all;
  for (const auto& [name, live] : common_->shares.list()) {
    const auto door = doors_.find(name);
    if (!live.broken && (door == doors_.end() || !door->second->open())) all.push_back(name);
  }
  return all;
}

std::size_t TenantDoors::connections() const { return common_->crowd.connections; }

std::size_t TenantDoors::waiting() const { return common_->crowd.waiting(); }

}  // namespace headgate::tenancy
