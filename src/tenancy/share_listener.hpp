// The listening socket of one share, and its peers (registration_server.hpp lists the bounds).
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
  // Reports a peer that claimed what the kernel contradicts, or another process's slot: which peer, and what was wrong.
  std::function<void(const std::string& share, const identity::Peer&, const std::string& what)> lied;
  // Hands the arbiter our end of the share's doorbell each time a socket is opened; returns whether it can be watched.
  // A message on it means that a process of the share wants to be looked at; the arbiter bounds how often. May be
  // empty.
  std::function<bool(const std::string& share, UniqueFd bell)> bell;
  // Called for each process that has taken its slot in a share with Admit::ask, before it is told that it may stay. It
  // calls `decide` once, at once or later: success, or why the process must go (no_capacity: it may come again). The
  // function returned is called if the answer is no longer wanted. If empty, no process may enter such a share.
  Ask ask = {};
  // Returns descriptors to send after those of the share itself (guest/ledger/registration.hpp). May be empty.
  std::function<std::vector<int>(const std::string& share)> handed = {};
  // Reports what went wrong at a socket, for the log; a socket that shut by itself is among shut(). May be empty.
  std::function<void(const std::string& what)> trouble = {};
};

// Opens the descriptor kept to answer a peer that connects when none is left.
[[nodiscard]] UniqueFd spare_descriptor();

// What all listeners of a node have in common.
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

// The two ends of a share's doorbell. A pair of sockets rather than an eventfd: the tenant's end shares no file flags
// with ours, so we never block in a read that a tenant made blocking. A limiter can tell by its inode whether the
// descriptor is still the bell after the program has closed and opened others.
struct Bell {
  UniqueFd ours, theirs;
};

[[nodiscard]] Result<Bell> make_bell();

// One share's listening socket, and its peers. Its coroutines keep it alive; close() ends them.
class ShareListener : public std::enable_shared_from_this<ShareListener> {
 public:
  static constexpr std::chrono::seconds kBellsApart{10};

  // `share` must exist and have its socket; `bell` is the tenants' end.
  ShareListener(std::shared_ptr<ListenerCommon> common, std::string share, UniqueFd bell);

  // Errors: the loop cannot watch one more descriptor.
  [[nodiscard]] Result<void> start(UniqueFd listener);
  // Returns whether a peer that connects now is heard.
  [[nodiscard]] bool open() const { return !closed_ && inode_ != 0 && socket_inode() == inode_; }
  void close();
  // RegistrationServer::reconsider().
  void reconsider();
  // RegistrationServer::new_bell().
  [[nodiscard]] Result<UniqueFd> new_bell(std::chrono::steady_clock::time_point now);

 private:
  struct PendingPeer;  // a connected peer
  struct Asking;       // a peer that waits for the answer to a question about it
  struct Shut {        // why a peer may not enter
    ledger::Refusal code;
    std::string why;
  };

  // Coroutines are static and take by value what must outlive the operations they wait for.
  static boost::asio::awaitable<void> accept_all(std::shared_ptr<ShareListener> door);
  static boost::asio::awaitable<void> converse(std::shared_ptr<PendingPeer> pending);
  static boost::asio::awaitable<bool> waits_to_be_heard(std::shared_ptr<PendingPeer> pending);
  // Returns the next message of that type from a peer that may still enter; none: the conversation is over.
  template <typename Message>
  static boost::asio::awaitable<std::optional<Message>> next(std::shared_ptr<PendingPeer> pending,
                                                             ledger::MessageType type);
  // Returns whether the process may stay in its slot, after asking as the share's owner wants. If not, it has been
  // refused. Cancels `limit`, the conversation's timer, to ask.
  static boost::asio::awaitable<bool> may_stay(std::shared_ptr<PendingPeer> pending, ledger::Claimed claimed,
                                               boost::asio::steady_timer& limit);
  // Succeeds too if the share no longer asks, or its socket is shut by now: the caller checks.
  static boost::asio::awaitable<Result<void>> answer_for(std::shared_ptr<PendingPeer> pending, TenantProcess tenant);
  // Calls `gone` when there is something to read, or the peer has disconnected.
  static void watch(const std::weak_ptr<PendingPeer>& whom, std::function<void()> gone);

  // Returns the inode of the socket as others find it; 0 if there is none.
  [[nodiscard]] ino_t socket_inode() const;
  // Returns 0 if a peer was let in or refused, else the errno that prevented it.
  int accept_one();
  void admit(UntrustedSocket socket);
  void refuse_seat(PendingPeer& pending, std::uint32_t slot);
  // Returns why that peer may not enter now; empty if it may.
  std::optional<Shut> shut_to(const identity::Peer& peer) const;
  std::optional<Shut> shut_to_newcomers() const;
  // Returns the process that the share's owner wants asked about; empty if none has to be.
  std::optional<TenantProcess> to_ask_about(const identity::Peer& peer) const;
  // Returns false if the peer may not enter; it has been told why.
  bool greet(PendingPeer& pending, const ledger::Hello& hello);
  void seat(PendingPeer& pending, const ledger::Claimed& claimed);
  void lied(const identity::Peer& peer, const std::string& what) const;
  void tell_trouble(const std::string& what) const;

  std::shared_ptr<ListenerCommon> common_;
  std::string share_;
  ShareConnections crowd_;
  boost::asio::posix::stream_descriptor listener_;
  UniqueFd bell_of_tenants_;
  std::chrono::steady_clock::time_point belled_at_;  // replaced then; at first never
  const ino_t inode_;
  const std::uint64_t generation_;  // of the share that it serves
  std::set<std::shared_ptr<Asking>> asking_;
  bool closed_ = false;
};

}  // namespace headgate::tenancy
