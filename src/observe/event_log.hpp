// What happened on the node, in the order in which it was noticed: a bounded ring that readers follow by sequence number.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

class EventLog {
 public:
  explicit EventLog(std::size_t capacity = 4096) : capacity_(capacity) {}

  // Gives `event` its number and, where unix_ns is 0, the time. Control characters in its texts become '?': names come
  // from other people's programs. Then calls whoever listens, on the caller's thread.
  void add(snapshot::Event event);
  // Those after `sequence` (0: all that are kept), at most `most`, oldest first.
  [[nodiscard]] std::vector<snapshot::Event> after(std::uint64_t sequence, std::size_t most = 1000) const;
  [[nodiscard]] std::uint64_t last_sequence() const;
  // One listener; set before the first event. It must be quick and must not call back.
  void listen(std::function<void(const snapshot::Event&)> listener) { listener_ = std::move(listener); }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<snapshot::Event> ring_;
  std::uint64_t last_ = 0;
  std::function<void(const snapshot::Event&)> listener_;
};

}  // namespace headgate::observe
