// What happened on the node, in the order in which it was noticed: a bounded ring that readers follow by sequence number.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

class EventLog {
 public:
  explicit EventLog(std::size_t capacity = 4096) : capacity_(capacity) {}

  // Of one share so many at once, and then so many a second: its tenants can make some happen as fast as they like. What is left
  // out is counted, and told with the next that is kept (events.left_out). When there is no room, the share that has most of the
  // events gives up its oldest.
  static constexpr double kBurst = 512, kPerSecond = 32;

  // Gives `event` its number and, where unix_ns is 0, the time. Control characters in its texts become '?': names come
  // from other people's programs. Then calls whoever listens, on the caller's thread.
  void add(snapshot::Event event);
  // Those after `sequence` (0: all that are kept), at most `most`, oldest first.
  [[nodiscard]] std::vector<snapshot::Event> after(std::uint64_t sequence, std::size_t most = 1000) const;
  [[nodiscard]] std::uint64_t last_sequence() const;
  // One listener, of the events from here on. It must be quick and must not call back.
  void listen(std::function<void(const snapshot::Event&)> listener);

 private:
  // What a share may still add, as of `at_ns`.
  struct Budget {
    double left = kBurst;
    std::int64_t at_ns = 0;
    std::uint64_t left_out = 0;
  };
  // Both under the lock.
  bool may_add(const std::string& share, std::uint64_t& left_out);
  void keep(snapshot::Event& event);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<snapshot::Event> ring_;
  std::map<std::string, Budget> budgets_;
  std::map<std::string, std::size_t> kept_;  // of the ring, by share
  std::uint64_t last_ = 0;
  std::function<void(const snapshot::Event&)> listener_;
};

}  // namespace headgate::observe
