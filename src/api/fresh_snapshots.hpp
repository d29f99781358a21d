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

  // Returns the latest snapshot, or takes a new one if it is older than 100 ms, the last change or the last process
  // exit. Blocks: for the pool.
  [[nodiscard]] observe::NodeSnapshot get() {
    constexpr std::uint64_t kOldNs = 100'000'000;
    // Rate limit for snapshots after process exits, against processes started and ended in a tight loop.
    constexpr std::uint64_t kBetweenEndsNs = 20'000'000;
    const observe::NodeSnapshot latest = observer_.latest();
    const std::uint64_t age_ns = steady_now_ns() - latest->taken_ns;
    if (age_ns > kOldNs || latest->taken_ns <= changed_ns_.load()) return observer_.look();
    if (latest->taken_ns > ended_ns_.load()) return latest;
    if (age_ns < kBetweenEndsNs) std::this_thread::sleep_for(std::chrono::nanoseconds(kBetweenEndsNs - age_ns));
    // Another waiting request may have taken a snapshot meanwhile.
    const observe::NodeSnapshot now = observer_.latest();
    return now->taken_ns > ended_ns_.load() ? now : observer_.look();
  }
  // Make earlier snapshots stale: an operation has changed something; a process of a share has ended.
  void changed() { changed_ns_ = steady_now_ns(); }
  void process_ended() { ended_ns_ = steady_now_ns(); }

 private:
  observe::Observer& observer_;
  std::atomic<std::uint64_t> changed_ns_ = 0, ended_ns_ = 0;
};

}  // namespace headgate::api
