// Who is at the doors of the node's shares, counted: so that neither one share's tenants nor one user keeps everybody
// else out. Who registers is soon gone again; who waits for an outside scheduler's answer is counted apart, with bounds
// of its own.
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
  // Processes that register at once: of the node, of a share and of a user, as identity::answerable_user() has it.
  std::size_t connections = 1024, connections_of_a_share = 64;
  std::size_t connections_of_a_user = 256, connections_of_a_user_in_a_share = 32;
  // At the doors of all shares of one owner, whatever they are called: tenants that may take any uid count as their
  // owner. Shares of root are everybody's.
  std::size_t connections_of_an_owner = 256;
  std::chrono::milliseconds conversation{1000};
  // In a share that asks first, until the answer. Who waits keeps its connection and is counted apart: a process waits
  // once, with a slot that it has, so that a share has as many who wait as it may have processes; and a user so many on
  // the node. Each takes three descriptors, of which the daemon has 65,536.
  std::chrono::milliseconds answer{30'000};
  std::size_t waiting = 16'384, waiting_of_a_user = 2048, waiting_of_an_owner = 4096;
};

using CountByUser = std::map<std::uint32_t, std::size_t>;

// One who is counted, until end() or for as long as this lives.
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

// At all doors.
struct NodeConnections {
  std::size_t connections = 0;
  CountByUser of_user, waiting_of_user, of_owner, waiting_of_owner;

  [[nodiscard]] std::size_t waiting() const;
};

// At one door of them. `node` and `bounds` outlive it, and it outlives whom it counts.
class ShareConnections {
 public:
  // `owner`: of the share; 0 of root's, which have no bound in common.
  ShareConnections(NodeConnections& node, const ConnectionBounds& bounds, std::uint32_t owner = 0)
      : node_(node), bounds_(bounds), owner_(owner) {}

  // Why nobody, or nobody of that user, may come now; empty where the next may.
  [[nodiscard]] std::optional<std::string> full() const;
  [[nodiscard]] std::optional<std::string> full_of(const identity::Peer& peer) const;
  [[nodiscard]] ConnectionToken come(const identity::Peer& peer);
  // One more who waits for an answer. Errors: no_capacity.
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
