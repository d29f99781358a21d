// Which processes may enter a share, and what its listener and the registrations of its peers have in common.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
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
inline constexpr const char* kNoDescriptor = "headgated has no descriptor left: try again";

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

// A peer that waits for the answer to a question about it.
struct AskedPeer {
  AskedPeer(const boost::asio::any_io_executor& executor, const identity::Peer& who) : timer(executor), peer(who) {}

  boost::asio::steady_timer timer;
  const identity::Peer& peer;
  std::optional<Result<void>> decision;
  std::string moot;  // why the answer is no longer wanted

  void wake(std::string why) {
    moot = std::move(why);
    timer.cancel();
  }
};

// Not thread-safe: for the loop's thread.
struct ShareEntry {
  // `share` must exist; `bell` is the tenants' end.
  ShareEntry(std::shared_ptr<ListenerCommon> of_all, std::string name, UniqueFd bell);

  struct Shut {  // why a peer may not enter
    ledger::Refusal code;
    std::string why;
  };
  // Returns why that peer may not enter now; empty if it may. Checked again after each wait: the share may have
  // changed, or have other users.
  [[nodiscard]] std::optional<Shut> shut_to(const identity::Peer& peer) const;
  // The same for a peer without a seat, in a share that shut_to() has just checked.
  [[nodiscard]] std::optional<Shut> shut_to_newcomers() const;
  // RegistrationServer::reconsider().
  void reconsider();
  void lied(const identity::Peer& peer, const std::string& what) const;
  void tell_trouble(const std::string& what) const;

  const std::shared_ptr<ListenerCommon> common;
  const std::string share;
  ShareConnections connections;
  UniqueFd bell_of_tenants;
  const std::uint64_t generation;  // of the share
  std::set<std::shared_ptr<AskedPeer>> asking;
  bool closed = false;
};

}  // namespace headgate::tenancy
