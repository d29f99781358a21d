// The door of one share: its listening socket, and who is at it (registration_server.hpp says what is bounded).
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "base/untrusted_socket.hpp"
#include "guest/ledger/registration.hpp"
#include "identity/peer.hpp"
#include "tenancy/connection_limits.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::tenancy {

struct ListenerEvents {
  using Decide = std::function<void(Result<void>)>;
  using TakeBack = std::function<void(const std::string& why)>;
  using Ask = std::function<TakeBack(const Share&, const TenantProcess&, Decide)>;
  // A peer that said what the kernel denies, or a slot that is not its own: who, and what was wrong.
  std::function<void(const std::string& share, const identity::Peer&, const std::string& what)> lied;
  // The arbiter's: our end of the share's doorbell, each time that a door is opened. A message on it means that some
  // process of the share wants to be looked at. Whoever takes the descriptor hears it, and bounds how often. May be
  // empty.
  std::function<bool(const std::string& share, UniqueFd bell)> bell;
  // Asked of each process that has taken its slot in a share with Admit::ask, before it is told that it may stay.
  // `decide` is called once, at once or later: nothing, or why it must go; no_capacity: for now, it may come again.
  // What comes back is called where nobody wants the answer any more. Not set: nobody may enter such a share.
  Ask ask = {};
  // Descriptors that go out after those of the share itself (guest/ledger/registration.hpp). May be empty.
  std::function<std::vector<int>(const std::string& share)> handed = {};
  // What went wrong at a door, for the log: a door that shut by itself is among shut(). May be empty.
  std::function<void(const std::string& what)> trouble = {};
};

// For whoever knocks when there is no descriptor left.
[[nodiscard]] UniqueFd spare_descriptor();

// What all doors of a node have in common.
struct ListenerCommon {
  boost::asio::any_io_executor executor;
  Shares& shares;
  Processes& processes;
  std::string proc;
  ConnectionBounds bounds;
  ListenerEvents events;
  NodeConnections crowd = {};
  UniqueFd spare = spare_descriptor();
};

// What the tenants of a share have of its doorbell, and our end of it. A pair of sockets rather than an eventfd: the
// tenant's end shares no file flags with ours, so that we never block in a read that a tenant made blocking; and a
// limiter can tell by its inode that the descriptor is still the bell, when the program has closed and opened others
// meanwhile.
struct Bell {
  UniqueFd ours, theirs;
};

[[nodiscard]] Result<Bell> make_bell();

// One share's listening socket, and who is at the door. Its coroutines keep it alive; close() ends them.
class ShareListener : public std::enable_shared_from_this<ShareListener> {
 public:
  static constexpr std::chrono::seconds kBellsApart{10};

  // `share`: there is one of that name, with its socket; `bell`: the tenants' end.
  ShareListener(std::shared_ptr<ListenerCommon> common, std::string share, UniqueFd bell);

  // Errors: of the loop, which cannot watch one more descriptor.
  [[nodiscard]] Result<void> start(UniqueFd listener);
  // Somebody who comes now is heard.
  [[nodiscard]] bool open() const { return !closed_ && inode_ != 0 && socket_inode() == inode_; }
  void close();
  // RegistrationServer::reconsider().
  void reconsider();
  // RegistrationServer::new_bell().
  [[nodiscard]] Result<UniqueFd> new_bell(std::chrono::steady_clock::time_point now);

 private:
  struct PendingPeer;  // who has connected
  struct Asking;       // who waits for the answer to a question about him
  struct Shut {        // why somebody may not come in
    ledger::Refusal code;
    std::string why;
  };

  // Coroutines are static and take by value what must outlive whatever they wait for.
  static boost::asio::awaitable<void> accept_all(std::shared_ptr<ShareListener> door);
  static boost::asio::awaitable<void> converse(std::shared_ptr<PendingPeer> pending);
  static boost::asio::awaitable<bool> waits_to_be_heard(std::shared_ptr<PendingPeer> pending);
  // The next message of that type, of who may come in still; none: the conversation is over.
  template <typename Message>
  static boost::asio::awaitable<std::optional<Message>> next(std::shared_ptr<PendingPeer> pending,
                                                             ledger::MessageType type);
  // Whether the process may stay in the slot that it took, by whom the share's owner wants asked. Who may not has been
  // told. `limit`: of a conversation, which this is no more.
  static boost::asio::awaitable<bool> may_stay(std::shared_ptr<PendingPeer> pending, ledger::Claimed claimed,
                                               boost::asio::steady_timer& limit);
  // Nothing too where the share asks no more, or its door is shut by now: the caller looks.
  static boost::asio::awaitable<Result<void>> answer_for(std::shared_ptr<PendingPeer> pending, TenantProcess tenant);
  // Calls `gone` when there is something to read, or nobody any more.
  static void watch(const std::weak_ptr<PendingPeer>& whom, std::function<void()> gone);

  // Of the socket as others find it; 0 where there is none.
  [[nodiscard]] ino_t socket_inode() const;
  // 0: somebody was let in or sent away; or errno of what kept it.
  int accept_one();
  void admit(UntrustedSocket socket);
  void refuse_seat(PendingPeer& pending, std::uint32_t slot);
  // Why that peer may not come in now; empty where it may.
  std::optional<Shut> shut_to(const identity::Peer& peer) const;
  std::optional<Shut> shut_to_newcomers() const;
  // The process whom the share's owner wants asked about; empty where nobody has to be.
  std::optional<TenantProcess> to_ask_about(const identity::Peer& peer) const;
  // False: who cannot come in has been told why.
  bool greet(PendingPeer& pending, const ledger::Hello& hello);
  void seat(PendingPeer& pending, const ledger::Claimed& claimed);
  void lied(const identity::Peer& peer, const std::string& what) const;
  void tell_trouble(const std::string& what) const;

  std::shared_ptr<ListenerCommon> common_;
  std::string share_;
  ShareConnections crowd_;
  boost::asio::posix::stream_descriptor listener_;
  UniqueFd bell_of_tenants_;
  std::chrono::steady_clock::time_point belled_at_;  // anew; at first at no time
  const ino_t inode_;
  const std::uint64_t generation_;  // of the share that it leads into
  std::set<std::shared_ptr<Asking>> asking_;
  bool closed_ = false;
};

}  // namespace headgate::tenancy
