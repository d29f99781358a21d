// Who waits for room: requests for shares that did not fit, in the order in which they came.
//
// The rule: whoever is first has what becomes free. Nobody is let in before an earlier one whom that would make lack
// more than it does now, on any GPU; who wants another GPU, or only what the earlier one does not wait for, need not
// wait behind it. Nothing here knows time, sockets or files. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tenancy/shortfall.hpp"

namespace headgate::node {

class Queue {
 public:
  // Each holds a connection: of these, others have need too.
  static constexpr std::size_t kMost = 256, kMaxOfAUser = 64;

  struct Events {
    // Where it stands now, from 1, and what it waits for, as half a sentence; each time that one of them is another.
    std::function<void(std::size_t place, const std::string& reason)> moved = {};
    // The end of waiting: the share is there, or why it never will be. Neither may call the queue.
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
  // Makes the share. no_capacity: it waits on; any other error: it need not.
  using Make = std::function<Result<void>(const tenancy::Share&)>;

  // Behind all others; nothing is told before serve(). Errors: no_capacity, where too many wait; conflict, where
  // another user waits for one of that name. Of one user's requests for a name the first that there is room for is
  // served; all others then end with conflict, and may join what it made.
  [[nodiscard]] Result<std::uint64_t> enter(tenancy::Share share, std::int64_t now_ns, Events events);
  // False where it does not wait (any more).
  bool leave(std::uint64_t ticket);
  // Gives what room there is, and tells those whose place has changed.
  void serve(Books books, const Make& make);

  // The first whom that share would overtake; null: nobody.
  [[nodiscard]] const Waiter* overtaken_by(const tenancy::Share& share, const Books& books) const;
  [[nodiscard]] const std::list<Waiter>& list() const { return line_; }

 private:
  std::list<Waiter> line_;
  std::uint64_t last_ticket_ = 0;
};

// "GPU-9c2f... lacks 8.0 GiB and 20 % of its time"
[[nodiscard]] std::string describe(std::span<const tenancy::Shortfall> shortfalls);

}  // namespace headgate::node
