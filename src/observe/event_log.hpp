// What happened on the node, in the order in which it was noticed: a bounded log that readers follow by sequence number.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

class EventLog {
 public:
  static constexpr std::size_t kCapacity = 4096;

  // Of one share so many at once, and then so many a second: its tenants can make some happen as fast as they like. What is left
  // out is counted, and told with the next that is kept (events.left_out). What a share is accused of has a budget of its own, which
  // none of its tenants' noise uses up.
  static constexpr double kBurst = 512, kPerSecond = 32;
  // One share has at most this part of the log, and gives up its own oldest for more. When there is no room, the oldest of all goes,
  // so that names of long ago hold nothing; but the node's own events (of no share: XIDs, policies, the audit of strangers) always
  // have this part, and more than half only as long as nobody else wants it.
  static constexpr std::size_t kPart = 8;

  explicit EventLog(std::size_t capacity = kCapacity) : capacity_(capacity) {}

  // Numbers above `after` and up to `until` that no event has.
  struct Gap {
    std::uint64_t after = 0, until = 0;
  };
  // Before the first add(): what former daemons' logs kept, oldest first and with their numbers; the next number is above `last`. As many
  // stay as the bounds allow. `gaps`: among their numbers and up to `last`.
  void restore(std::vector<snapshot::Event> former, std::vector<Gap> gaps, std::uint64_t last);
  // The number after which this log's own events begin.
  [[nodiscard]] std::uint64_t began_after() const;
  // How many numbers above `after` and below `before` some event had, whether it is kept or not.
  [[nodiscard]] std::uint64_t numbers_between(std::uint64_t after, std::uint64_t before) const;
  // No event with a greater number than this has been given up.
  [[nodiscard]] std::uint64_t given_up() const;

  // Gives `event` its number and, where unix_ns is 0, the time. Its texts are made printable() (base/utf8.hpp): names come
  // from other people's programs. Then calls whoever listens, on the caller's thread.
  void add(snapshot::Event event);
  // Those after `sequence` (0: all that are kept), at most `most`, oldest first. Numbers between them that are lacking are of
  // events that are kept no more.
  [[nodiscard]] std::vector<snapshot::Event> after(std::uint64_t sequence, std::size_t most = kCapacity) const;
  [[nodiscard]] std::uint64_t last_sequence() const;
  // One more listener, of the events from here on. It must be quick and must not call back. Two threads' events may come to it in
  // another order than that of their numbers.
  void listen(std::function<void(const snapshot::Event&)> listener);

 private:
  // What a share may still add, as of `at_ns`.
  struct Budget {
    double left = kBurst;
    std::int64_t at_ns = 0;
    std::uint64_t left_out = 0;
  };
  using Kept = std::map<std::uint64_t, snapshot::Event>;  // by sequence

  // All under the lock.
  bool may_add(const snapshot::Event& event, std::uint64_t& left_out);
  void number(snapshot::Event& event) { event.sequence = ++last_; }
  void keep(const snapshot::Event& event);
  void give_up_oldest_of(const std::string& share);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  Kept of_node_, of_shares_;
  std::map<std::string, std::deque<std::uint64_t>> by_share_;  // the sequences in of_shares_
  std::map<std::pair<std::string, bool>, Budget> budgets_;     // by share, of accusations and of the rest
  std::uint64_t last_ = 0, began_after_ = 0, given_up_ = 0;
  std::vector<Gap> gaps_;
  std::vector<std::function<void(const snapshot::Event&)>> listeners_;
};

}  // namespace headgate::observe
