// Decides for requests whether the observer's latest snapshot is new enough. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/now.hpp"
#include "observe/observer.hpp"

namespace headgate::api {

class FreshSnapshots {
 public:
  explicit FreshSnapshots(observe::Observer& observer) : observer_(observer) {}

  // Returns the latest snapshot, or takes a new one if it is older than 100 ms, the last change, event or process exit:
  // a client that has read of an event sees what it did. Blocks: for the pool.
  [[nodiscard]] observe::NodeSnapshot get() {
    constexpr std::uint64_t kOldNs = 100'000'000;
    // Rate limit for snapshots after events and exits, against processes started and ended in a tight loop.
    constexpr std::uint64_t kBetweenEventsNs = 20'000'000;
    const observe::NodeSnapshot latest = observer_.latest();
    const std::uint64_t age_ns = steady_now_ns() - latest->taken_ns;
    if (age_ns > kOldNs || latest->taken_ns <= changed_ns_.load()) return observer_.look();
    if (latest->taken_ns > event_ns_.load()) return latest;
    if (age_ns < kBetweenEventsNs) std::this_thread::sleep_for(std::chrono::nanoseconds(kBetweenEventsNs - age_ns));
    // Another waiting request may have taken a snapshot meanwhile.
    const observe::NodeSnapshot now = observer_.latest();
    return now->taken_ns > event_ns_.load() ? now : observer_.look();
  }
  // Make earlier snapshots stale: an operation has changed something; an event was added, or a process has ended.
  void changed() { changed_ns_ = steady_now_ns(); }
  void event() { event_ns_ = steady_now_ns(); }

 private:
  observe::Observer& observer_;
  std::atomic<std::uint64_t> changed_ns_ = 0, event_ns_ = 0;
};

}  // namespace headgate::api
