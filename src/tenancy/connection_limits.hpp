// Counts the connections at the node's share sockets, so that neither one share's tenants nor one user locks all others
// out. A registering process is soon gone again. One that waits for an outside scheduler's answer is counted apart,
// with separate bounds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "identity/peer.hpp"

namespace headgate::tenancy {

struct ConnectionBounds {
  // Processes that register at once: of the node, of a share and of a user (identity::answerable_user()).
  std::size_t connections = 1024, connections_of_a_share = 64;
  std::size_t connections_of_a_user = 256, connections_of_a_user_in_a_share = 32;
  // At the sockets of all shares of one owner, whatever their names: a tenant that may take any uid counts as its
  // owner. Does not apply to root's shares.
  std::size_t connections_of_an_owner = 256;
  std::chrono::milliseconds conversation{1000};
  // Time to wait for the answer, in a share that asks first. A waiting process keeps its connection and is counted
  // apart. It waits once and has a slot, so a share can have as many waiting as processes; users are bounded below.
  // Each takes three descriptors; the daemon has 65,536.
  std::chrono::milliseconds answer{30'000};
  std::size_t waiting = 16'384, waiting_of_a_user = 2048, waiting_of_an_owner = 4096;
};

using CountByUser = std::map<std::uint32_t, std::size_t>;

// Counts one connection until end() or its destruction.
class ConnectionToken {
 public:
  explicit ConnectionToken(std::function<void()> uncount) : uncount_(std::move(uncount)) {}
  ConnectionToken(ConnectionToken&& other) noexcept : uncount_(std::exchange(other.uncount_, nullptr)) {}
  ConnectionToken& operator=(ConnectionToken&&) = delete;
  ~ConnectionToken() { end(); }
  void end() {
    if (const auto uncount = std::exchange(uncount_, nullptr)) uncount();
  }

 private:
  std::function<void()> uncount_;
};

// Counts over all sockets.
struct NodeConnections {
  std::size_t connections = 0;
  CountByUser of_user, waiting_of_user, of_owner, waiting_of_owner;

  [[nodiscard]] std::size_t waiting() const;
};

// Counts at one share's socket. `node` and `bounds` outlive it, and it outlives its tokens.
class ShareConnections {
 public:
  // `owner`: the share's owner; 0 for shares of root, which have no common bound.
  ShareConnections(NodeConnections& node, const ConnectionBounds& bounds, std::uint32_t owner = 0)
      : node_(node), bounds_(bounds), owner_(owner) {}

  // Returns why no process, or none of that user, may connect now; empty if the next may.
  [[nodiscard]] std::optional<std::string> full() const;
  [[nodiscard]] std::optional<std::string> full_of(const identity::Peer& peer) const;
  [[nodiscard]] ConnectionToken come(const identity::Peer& peer);
  // Counts one more process that waits for an answer. Errors: no_capacity.
  [[nodiscard]] Result<ConnectionToken> wait(const identity::Peer& peer);

 private:
  NodeConnections& node_;
  const ConnectionBounds& bounds_;
  const std::uint32_t owner_;
  std::size_t connections_ = 0;
  CountByUser of_user_;
  std::set<std::uint32_t> waiting_;  // pids
};

}  // namespace headgate::tenancy
