// Requests for shares that wait for room: the node's side of the queue.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/managed_shares.hpp"
#include "node/queue.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

class AdmissionQueue {
 public:
  explicit AdmissionQueue(ManagedShares& managed) : managed_(managed) {}

  // Queues the share behind earlier requests (queue.hpp); it is made as soon as there is room. What is known at once is
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
