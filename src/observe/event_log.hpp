// A bounded log of the node's events, in the order in which they were noticed; readers follow it by sequence number.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "snapshot/event_group.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

class EventLog {
 public:
  static constexpr std::size_t kCapacity = 4096;

  // A share may add kBurst events at once, then kPerSecond: its tenants can cause some as fast as they like. One owner
  // has kOwnerShares times that over all its shares, whatever their names. What is left out is counted, and reported
  // with the next event that is kept (events.left_out). Findings about a share have a separate budget, which its
  // tenants' noise does not use up.
  static constexpr double kBurst = 512, kPerSecond = 32, kOwnerShares = 8;
  // One share has at most this part of the log, and gives up its own oldest for more. Without room, the owner that has
  // most gives up its oldest: new names of shares gain nothing. The node's own events (of no share: XIDs, policies) and
  // the audit's findings count apart from an owner's others; each of the two has this part of the log whatever owners
  // do.
  static constexpr std::size_t kPart = 8;

  explicit EventLog(std::size_t capacity = kCapacity) : capacity_(capacity) {}

  // Numbers above `after` and up to `until` that no event has.
  struct Gap {
    std::uint64_t after = 0, until = 0;
  };
  // Takes over what former daemons' logs kept, oldest first and numbered, as far as the bounds allow; the next number
  // is above `last`. `gaps`: among their numbers and up to `last`. Call it before the first add().
  void restore(std::vector<snapshot::Event> former, std::vector<Gap> gaps, std::uint64_t last);
  // Returns the number after which this log's own events begin.
  [[nodiscard]] std::uint64_t began_after() const;
  // Returns how many numbers above `after` and below `before` an event had, whether it is kept or not.
  [[nodiscard]] std::uint64_t numbers_between(std::uint64_t after, std::uint64_t before) const;
  // Returns a number above which no event has been given up.
  [[nodiscard]] std::uint64_t given_up() const;

  // Gives `event` its number and, if unix_ns is 0, the time. Makes its texts printable() (base/utf8.hpp), as names come
  // from untrusted programs. Then calls the listeners, on the caller's thread.
  void add(snapshot::Event event);
  // Returns events after `sequence` (0: all that are kept), at most `most`, oldest first. Numbers missing between them
  // are of events that are no longer kept.
  [[nodiscard]] std::vector<snapshot::Event> after(std::uint64_t sequence, std::size_t most = kCapacity) const;
  [[nodiscard]] std::uint64_t last_sequence() const;
  [[nodiscard]] std::size_t kept() const;
  // Adds a listener for the events from here on. It must be quick and must not call back. Events of two threads may
  // reach it in another order than that of their numbers.
  void listen(std::function<void(const snapshot::Event&)> listener);

 private:
  // What a share may still add, as of `at_ns`.
  struct Budget {
    double left = kBurst;
    std::int64_t at_ns = 0;
    std::uint64_t left_out = 0;
  };
  using Sequences = std::set<std::uint64_t>;
  // Call all of these under the lock.
  bool may_add(const snapshot::Event& event, std::uint64_t& left_out);
  void number(snapshot::Event& event) { event.sequence = ++last_; }
  void keep(const snapshot::Event& event);
  void give_up(std::uint64_t sequence);
  void make_room();
  [[nodiscard]] bool has_budget(const std::string& whose, bool finding, double shares);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, snapshot::Event> kept_;  // by sequence
  std::map<std::string, Sequences> by_share_;      // no findings
  std::map<snapshot::EventGroup, Sequences> groups_;
  std::size_t findings_ = 0;                                // in groups_
  std::map<std::pair<std::string, bool>, Budget> budgets_;  // by share or owner; of findings, and of other events
  std::size_t forget_budgets_at_ = 0;
  std::uint64_t last_ = 0, began_after_ = 0, given_up_ = 0;
  std::vector<Gap> gaps_;
  std::vector<std::function<void(const snapshot::Event&)>> listeners_;
};

// A reader's position in the log of events. A value: discarding a copy reads nothing.
class EventCursor {
 public:
  // Reports events that the log gave up before this reader took them, and how many.
  static constexpr const char* kMissed = "events.missed";

  // `after`: the last event that the reader has; none: only new ones; 0: all that are kept. A number that the log has
  // not reached is of a former daemon's log: all events of this one are new to the reader.
  EventCursor(const EventLog& log, std::optional<std::uint64_t> after);

  // Returns the next events, at most `most`, in order, each once; empty: there is none now. If the log has given some
  // up, events.missed replaces them, with the number of the last of them.
  [[nodiscard]] std::vector<snapshot::Event> next(const EventLog& log, std::size_t most);
  // As above for `some`, which come next and were kept elsewhere.
  [[nodiscard]] std::vector<snapshot::Event> pass(const EventLog& log, std::vector<snapshot::Event> some);

 private:
  std::uint64_t last_ = 0;   // looked at
  std::uint64_t since_ = 0;  // events up to here were already given up when asked for
};

}  // namespace headgate::observe
