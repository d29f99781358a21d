// Requests for shares that did not fit, and wait for room.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/managed_shares.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/admission.hpp"

namespace headgate::node {

// Queues requests in the order in which they came. The first request gets what becomes free. No request is served if an
// earlier one would then lack more than it does now, on any GPU. One for another GPU, or only for what the earlier one
// does not lack, need not wait behind it. No time, sockets or files here. Not thread-safe.
class Queue {
 public:
  // Each holds a connection, and there are other uses for those.
  static constexpr std::size_t kMost = 256, kMaxOfAUser = 64;

  struct Events {
    // Its place, from 1, and what it waits for, as half a sentence; called each time that one of them changes.
    std::function<void(std::size_t place, const std::string& reason)> moved = {};
    // The end of waiting: the share is there, or why it never will be. Neither callback may call the queue.
    std::function<void(Result<void>)> settled = {};
  };
  struct Waiter {
    std::uint64_t ticket = 0;
    tenancy::Share share;
    std::int64_t since_ns = 0;  // CLOCK_MONOTONIC
    Events events = {};
    std::size_t place = 0;
    std::string reason = {};
  };
  struct Books {
    std::span<const tenancy::Card> cards;
    tenancy::Reserve reserve;
    std::vector<tenancy::Committed> committed;  // of each card
  };
  // Makes the share. no_capacity: the request waits on; any other error ends its waiting.
  using Make = std::function<Result<void>(const tenancy::Share&)>;

  // Adds a request behind all others; no event comes before serve(). Errors: no_capacity if too many wait; conflict if
  // another user waits for that name. Of one user's requests for a name the first that there is room for is served; the
  // others then end with conflict, and may join the share.
  [[nodiscard]] Result<std::uint64_t> enter(tenancy::Share share, std::int64_t now_ns, Events events);
  // Returns false if it does not wait, or no longer.
  bool leave(std::uint64_t ticket);
  // Serves requests as far as there is room, and notifies those that have moved.
  void serve(Books books, const Make& make);

  // Returns the first request that the share would overtake; null: none.
  [[nodiscard]] const Waiter* overtaken_by(const tenancy::Share& share, const Books& books) const;
  [[nodiscard]] const std::list<Waiter>& list() const { return line_; }

 private:
  std::list<Waiter> line_;
  std::uint64_t last_ticket_ = 0;
};

// "GPU-9c2f... lacks 8.0 GiB and 20 % of its time"
[[nodiscard]] std::string describe(std::span<const tenancy::Shortfall> shortfalls);

// The node's queue.
class AdmissionQueue {
 public:
  explicit AdmissionQueue(ManagedShares& managed) : managed_(managed) {}

  // Queues the share behind earlier requests; it is made as soon as there is room. What is known at once is
  // reported before this returns. Errors: no_capacity if it can never fit, or too many wait; of the quotas.
  [[nodiscard]] Result<std::uint64_t> enter(tenancy::Share share, const Caller& caller, Queue::Events events);
  // A request that no longer waits has left already.
  void leave(std::uint64_t ticket);
  // Call it whenever there may be more room.
  void serve();

  // Checks that the share takes nothing that an earlier request waits for. Errors: no_capacity.
  [[nodiscard]] Result<void> check_turn(const tenancy::Share& share, const Caller& caller) const;
  [[nodiscard]] std::size_t waiting_of(std::uint32_t uid) const;
  // Adds the queue to a snapshot.
  void show(snapshot::Snapshot& snapshot) const;

 private:
  [[nodiscard]] Queue::Books books() const;

  ManagedShares& managed_;
  Queue queue_;
};

}  // namespace headgate::node
